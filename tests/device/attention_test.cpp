// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/graph.hpp"

#include "device/on_device.hpp"
#include "support/attention_oracle.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

class AttentionTest : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    if (const std::string why = device().why_no_attention(); !why.empty()) GTEST_SKIP() << why;
  }

  /// A tensor of random values of a dtype, on the device and in fp64.
  struct Operand {
    std::vector<double> values;
    Buffer memory;
  };
  [[nodiscard]] Operand random_operand(DType dtype, std::int64_t count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    std::normal_distribution<double> any;
    for (double& value : values) value = any(random());
    std::vector<std::byte> bytes(values.size() * size_of(dtype));
    store(values, dtype, bytes.data());
    return {load(bytes.data(), count, dtype), upload(bytes)};
  }
  [[nodiscard]] Buffer poisoned(DType dtype, std::int64_t count) const {
    return upload(std::vector<unsigned char>(static_cast<std::size_t>(count) * size_of(dtype), 0xff));  // NaN
  }
  [[nodiscard]] std::vector<double> values_of(const Buffer& buffer, DType dtype) const {
    const auto bytes = download<std::byte>(buffer);
    return load(bytes.data(), static_cast<std::int64_t>(bytes.size() / size_of(dtype)), dtype);
  }
  static void expect_within(const AttentionOracle::Values& expected, const std::vector<double>& actual,
                            const char* what, double extra = 0) {
    ASSERT_EQ(expected.value.size(), actual.size()) << what;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_LE(std::abs(actual[i] - expected.value[i]), expected.allowed[i] + extra * expected.magnitude[i])
          << what << ", element " << i << ": " << actual[i] << " instead of " << expected.value[i];
    }
  }

  struct Tensors {
    Operand q, k, v, grad_out;
  };
  [[nodiscard]] Tensors random_tensors(const AttentionSpec& spec) {
    const std::int64_t rows = spec.queries * spec.batch * spec.heads;
    const std::int64_t kv_rows = spec.keys * spec.batch * spec.kv_heads;
    return {random_operand(spec.dtype, rows * spec.head_dim), random_operand(spec.dtype, kv_rows * spec.head_dim),
            random_operand(spec.dtype, kv_rows * spec.dim_of_values()),
            random_operand(spec.dtype, rows * spec.dim_of_values())};
  }

  struct Results {
    Buffer out, lse, dq, dk, dv;
  };
  [[nodiscard]] Results poisoned_results(const AttentionSpec& spec) const {
    const std::int64_t rows = spec.queries * spec.batch * spec.heads;
    const std::int64_t kv_rows = spec.keys * spec.batch * spec.kv_heads;
    return {poisoned(spec.dtype, rows * spec.dim_of_values()), poisoned(f32, rows),
            poisoned(spec.dtype, rows * spec.head_dim), poisoned(spec.dtype, kv_rows * spec.head_dim),
            poisoned(spec.dtype, kv_rows * spec.dim_of_values())};
  }
  static AttentionOperands operands(const Tensors& tensors, const Results& results) {
    return {tensors.q.memory.data(), tensors.k.memory.data(), tensors.v.memory.data(), results.out.data(),
            results.lse.data_as<float>()};
  }
  static AttentionGradientOperands gradient_operands(const Tensors& tensors, const Results& results) {
    return {tensors.grad_out.memory.data(),
            tensors.q.memory.data(),
            tensors.k.memory.data(),
            tensors.v.memory.data(),
            results.out.data(),
            results.lse.data_as<float>(),
            results.dq.data(),
            results.dk.data(),
            results.dv.data()};
  }

  void check(AttentionSpec spec) {
    spec.gradients = true;
    SCOPED_TRACE(::testing::Message() << name(spec.dtype) << ", batch " << spec.batch << ", " << spec.queries
                                      << " queries, " << spec.keys << " keys, heads " << spec.heads << " and "
                                      << spec.kv_heads << " of " << spec.head_dim << " and " << spec.dim_of_values()
                                      << ", left " << spec.band.left.value_or(-1) << ", right "
                                      << spec.band.right.value_or(-1));
    const Tensors tensors = random_tensors(spec);
    const Results results = poisoned_results(spec);
    const std::unique_ptr<Attention> attention = device().attention(spec);
    Stream stream(device());
    attention->forward(stream, operands(tensors, results));
    attention->backward(stream, gradient_operands(tensors, results));
    stream.synchronize();
    const AttentionOracle oracle(spec, tensors.q.values, tensors.k.values, tensors.v.values, tensors.grad_out.values);
    expect_within(oracle.out, values_of(results.out, spec.dtype), "out");
    expect_within(oracle.lse, values_of(results.lse, f32), "lse");
    expect_within(oracle.dq, values_of(results.dq, spec.dtype), "dq");
    expect_within(oracle.dk, values_of(results.dk, spec.dtype), "dk");
    expect_within(oracle.dv, values_of(results.dv, spec.dtype), "dv");
  }

  [[nodiscard]] DType dtype() const { return on_host() ? f32 : bf16; }
  [[nodiscard]] std::vector<DType> dtypes() const {
    return on_host() ? std::vector<DType>{f32, f16, bf16} : std::vector<DType>{f16, bf16};
  }
};

class AttentionGraphTest : public AttentionTest {};

TEST_P(AttentionTest, AttendsToEverything) {
  for (const DType dtype : dtypes()) {
    check({.queries = 64, .keys = 64, .heads = 2, .kv_heads = 2, .head_dim = 64, .dtype = dtype});
    check({.batch = 2, .queries = 77, .keys = 300, .heads = 3, .kv_heads = 3, .head_dim = 32, .dtype = dtype});
    check({.queries = 301, .keys = 100, .heads = 1, .kv_heads = 1, .head_dim = 128, .dtype = dtype});
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionTest, IsCausal) {
  for (const DType dtype : dtypes()) {
    check({.batch = 2,
           .queries = 131,
           .keys = 131,
           .heads = 2,
           .kv_heads = 2,
           .head_dim = 64,
           .dtype = dtype,
           .band = {.right = 0}});
    check(
        {.queries = 300, .keys = 70, .heads = 2, .kv_heads = 1, .head_dim = 64, .dtype = dtype, .band = {.right = 0}});
    check(
        {.queries = 70, .keys = 300, .heads = 2, .kv_heads = 1, .head_dim = 64, .dtype = dtype, .band = {.right = 0}});
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionTest, SharesKeysAmongHeads) {
  check({.queries = 65, .keys = 129, .heads = 8, .kv_heads = 2, .head_dim = 64, .dtype = dtype()});
  check({.batch = 3,
         .queries = 33,
         .keys = 33,
         .heads = 6,
         .kv_heads = 1,
         .head_dim = 32,
         .dtype = dtype(),
         .band = {.right = 0}});
}

TEST_P(AttentionTest, SeesABand) {
  check({.queries = 400,
         .keys = 400,
         .heads = 2,
         .kv_heads = 2,
         .head_dim = 64,
         .dtype = dtype(),
         .band = {.left = 99, .right = 0}});
  check(
      {.queries = 200, .keys = 330, .heads = 2, .kv_heads = 1, .head_dim = 64, .dtype = dtype(), .band = {.left = 40}});
  check(
      {.queries = 300, .keys = 300, .heads = 1, .kv_heads = 1, .head_dim = 64, .dtype = dtype(), .band = {.left = 0}});
  check({.queries = 200,
         .keys = 330,
         .heads = 2,
         .kv_heads = 2,
         .head_dim = 64,
         .dtype = dtype(),
         .band = {.left = 100, .right = 50}});
}

TEST_P(AttentionTest, HasHeadsOfAnyUsualDimension) {
  for (const std::int64_t dim : {16, 72, 96, 128, 256}) {
    check({.queries = 100,
           .keys = 100,
           .heads = 2,
           .kv_heads = 1,
           .head_dim = dim,
           .dtype = dtype(),
           .band = {.right = 0}});
    if (HasFatalFailure()) return;
  }
  check({.queries = 90, .keys = 70, .heads = 2, .kv_heads = 2, .head_dim = 192, .value_dim = 128, .dtype = dtype()});
}

TEST_P(AttentionTest, TakesAScale) {
  check({.queries = 64, .keys = 64, .heads = 2, .kv_heads = 2, .head_dim = 64, .dtype = dtype(), .scale = 0.5F});
}

TEST_P(AttentionTest, TakesFewTokens) {
  check({.queries = 1, .keys = 3, .heads = 1, .kv_heads = 1, .head_dim = 64, .dtype = dtype()});
  check({.queries = 3, .keys = 1, .heads = 1, .kv_heads = 1, .head_dim = 64, .dtype = dtype()});
  check({.queries = 1, .keys = 1, .heads = 2, .kv_heads = 1, .head_dim = 64, .dtype = dtype(), .band = {.right = 0}});
}

// cuDNN has no gradients of it.
TEST_P(AttentionTest, TakesASingleKey) {
  for (const DType dtype : dtypes()) {
    check({.batch = 3,
           .queries = 1,
           .keys = 1,
           .heads = 6,
           .kv_heads = 2,
           .head_dim = 72,
           .value_dim = 40,
           .dtype = dtype,
           .band = {.left = 0},
           .scale = 0.7F});
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionTest, OfNoQueriesLeavesGradientsOfZero) {
  check({.queries = 0, .keys = 5, .heads = 1, .kv_heads = 1, .head_dim = 64, .dtype = dtype()});
  check({.queries = 0, .keys = 0, .heads = 1, .kv_heads = 1, .head_dim = 64, .dtype = dtype()});
  check({.batch = 0, .queries = 4, .keys = 5, .heads = 1, .kv_heads = 1, .head_dim = 64, .dtype = dtype()});
}

TEST_P(AttentionTest, SaysWhatItCannotDo) {
  if (on_host()) {
    EXPECT_NE(device().attention({.queries = 8, .keys = 8, .head_dim = 64})->describe().find("64 queries"),
              std::string::npos);
    return;
  }
  const auto lacks = [&](const AttentionSpec& spec, std::initializer_list<std::string> parts) {
    expect_error<Unsupported>([&] { static_cast<void>(device().attention(spec)); }, parts);
  };
  lacks({.queries = 8, .keys = 8, .head_dim = 64, .dtype = f32}, {"attention of f32", "f16 and bf16"});
  lacks({.queries = 8, .keys = 8, .head_dim = 20, .dtype = bf16}, {"heads of 20 and 20", "multiples of 8"});
  lacks({.queries = 20, .keys = 8, .head_dim = 64, .dtype = bf16, .band = {.left = 15}},
        {"keys from i - 15 to i + any", "cuDNN"});
  EXPECT_NE(device().attention({.queries = 8, .keys = 8, .head_dim = 64, .dtype = bf16})->describe().find("cuDNN 9"),
            std::string::npos);
}

TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  check({.queries = 50, .keys = 300, .heads = 1, .kv_heads = 1, .head_dim = 64, .dtype = dtype(), .scale = 20.0F});
}

TEST_P(AttentionTest, HasTheSameGradientsInEveryRunIfAsked) {
  const AttentionSpec spec{.queries = 512,
                           .keys = 512,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 64,
                           .dtype = dtype(),
                           .gradients = true,
                           .deterministic = true};
  const Tensors tensors = random_tensors(spec);
  const std::unique_ptr<Attention> attention = device().attention(spec);
  Stream stream(device());
  std::vector<std::byte> first;
  for (int run = 0; run < 5; ++run) {
    const Results results = poisoned_results(spec);
    attention->forward(stream, operands(tensors, results));
    attention->backward(stream, gradient_operands(tensors, results));
    stream.synchronize();
    std::vector<std::byte> all;
    for (const Buffer* const buffer : {&results.out, &results.dq, &results.dk, &results.dv}) {
      const auto bytes = download<std::byte>(*buffer);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    if (run == 0) first = all;
    ASSERT_TRUE(all == first) << "run " << run;
  }
}

// Attention to two blocks of keys, one after the other, as if to both at once; the second is seen by the last queries.
TEST_P(AttentionTest, MergesBlocksOfKeys) {
  for (const DType dtype : dtypes()) {
    constexpr std::int64_t queries = 150, seeing = 70, keys = 90, batch = 2, heads = 4, kv_heads = 2, dim = 64;
    const AttentionSpec whole{.batch = batch,
                              .queries = seeing,
                              .keys = 2 * keys,
                              .heads = heads,
                              .kv_heads = kv_heads,
                              .head_dim = dim,
                              .dtype = dtype,
                              .gradients = true};
    AttentionSpec all = whole;
    all.queries = queries;
    all.keys = keys;
    AttentionSpec last = whole;
    last.keys = keys;
    const Tensors tensors = random_tensors([&] {
      AttentionSpec spec = whole;
      spec.queries = queries;
      return spec;
    }());
    const std::size_t element = size_of(dtype);
    const auto behind = [element](const Buffer& buffer, std::int64_t elements) -> void* {
      return buffer.data_as<std::byte>() + static_cast<std::size_t>(elements) * element;
    };
    constexpr std::int64_t skipped = (queries - seeing) * batch * heads * dim;
    constexpr std::int64_t second = keys * batch * kv_heads * dim;
    const Buffer out = poisoned(dtype, queries * batch * heads * dim);
    const Buffer lse = poisoned(f32, queries * batch * heads);
    const Buffer sum = poisoned(f32, queries * batch * heads * dim);
    const Buffer part = poisoned(dtype, seeing * batch * heads * dim);
    const Buffer lse_part = poisoned(f32, seeing * batch * heads);
    const auto attention_to_all = device().attention(all);
    const auto attention_of_last = device().attention(last);
    Stream stream(device());
    attention_to_all->forward(stream, {tensors.q.memory.data(), tensors.k.memory.data(), tensors.v.memory.data(),
                                       out.data(), lse.data_as<float>()});
    attention_of_last->forward(stream, {behind(tensors.q.memory, skipped), behind(tensors.k.memory, second),
                                        behind(tensors.v.memory, second), part.data(), lse_part.data_as<float>()});
    AttentionMerge merge{.before = out.data(),
                         .after = sum.data(),
                         .part = part.data(),
                         .lse = lse.data_as<float>(),
                         .lse_part = lse_part.data_as<float>(),
                         .rows = {.count = seeing, .first = queries - seeing, .tokens = queries, .part_tokens = seeing},
                         .batch = batch,
                         .heads = heads,
                         .dim = dim,
                         .dtype = dtype,
                         .before_dtype = dtype};
    // In two halves: one into another tensor, one in place.
    merge.rows.count = 30;
    device().merge(stream, merge);
    merge.rows.first += 30;
    merge.rows.part_first = 30;
    merge.rows.count = seeing - 30;
    merge.after = out.data();
    merge.after_dtype = dtype;
    device().merge(stream, merge);
    stream.synchronize();

    std::vector<double> actual = values_of(out, dtype);
    const std::vector<double> sums = values_of(sum, f32);
    std::copy_n(sums.begin() + skipped, 30 * batch * heads * dim, actual.begin() + skipped);
    const AttentionOracle first(all, tensors.q.values, std::span(tensors.k.values).first(second),
                                std::span(tensors.v.values).first(second));
    const std::vector<double> last_q(tensors.q.values.begin() + skipped, tensors.q.values.end());
    const AttentionOracle both(whole, last_q, tensors.k.values, tensors.v.values);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const bool merged = i >= static_cast<std::size_t>(skipped);
      const AttentionOracle::Values& expected = merged ? both.out : first.out;
      const std::size_t e = merged ? i - static_cast<std::size_t>(skipped) : i;
      ASSERT_LE(std::abs(actual[i] - expected.value[e]), expected.allowed[e] + epsilon(dtype) * expected.magnitude[e])
          << "element " << i << " of " << name(dtype);
    }
    const std::vector<double> lses = values_of(lse, f32);
    for (std::int64_t head = 0; head < batch * heads; ++head) {
      for (std::int64_t i = 0; i < queries; ++i) {
        const bool merged = i >= queries - seeing;
        const AttentionOracle::Values& expected = merged ? both.lse : first.lse;
        const auto e = static_cast<std::size_t>(merged ? head * seeing + i - (queries - seeing) : head * queries + i);
        ASSERT_LE(std::abs(lses[static_cast<std::size_t>(head * queries + i)] - expected.value[e]),
                  expected.allowed[e] + 0x1p-22)
            << "lse of head " << head << ", query " << i;
      }
    }
  }
}

TEST_P(AttentionGraphTest, ReplaysBothDirections) {
  const AttentionSpec spec{.queries = 100,
                           .keys = 100,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 64,
                           .dtype = dtype(),
                           .band = {.right = 0},
                           .gradients = true};
  const Tensors tensors = random_tensors(spec);
  const Results results = poisoned_results(spec);
  const std::unique_ptr<Attention> attention = device().attention(spec);
  Stream stream(device());
  const Graph graph(device(), stream, [&] {
    attention->forward(stream, operands(tensors, results));
    attention->backward(stream, gradient_operands(tensors, results));
  });
  graph.launch(stream);
  graph.launch(stream);
  stream.synchronize();
  const AttentionOracle oracle(spec, tensors.q.values, tensors.k.values, tensors.v.values, tensors.grad_out.values);
  expect_within(oracle.out, values_of(results.out, spec.dtype), "out");
  expect_within(oracle.dq, values_of(results.dq, spec.dtype), "dq");
  expect_within(oracle.dk, values_of(results.dk, spec.dtype), "dk");
  expect_within(oracle.dv, values_of(results.dv, spec.dtype), "dv");
}

TEST_P(AttentionTest, RefusesWhatHasNoMeaning) {
  const AttentionSpec good{.queries = 8, .keys = 8, .heads = 4, .kv_heads = 2, .head_dim = 64, .dtype = dtype()};
  const auto refused = [&](auto change, const char* because) {
    AttentionSpec spec = good;
    change(spec);
    expect_error<InvalidArgument>([&] { static_cast<void>(device().attention(spec)); }, {because});
  };
  refused([](AttentionSpec& s) { s.batch = -1; }, "attention with batch -1; allowed: 0 and more");
  refused([](AttentionSpec& s) { s.queries = -2; }, "attention with queries -2");
  refused([](AttentionSpec& s) { s.head_dim = 0; }, "attention with head_dim 0; allowed: 1 and more");
  refused([](AttentionSpec& s) { s.kv_heads = 3; }, "4 heads and 3 kv_heads; the second must divide the first");
  refused([](AttentionSpec& s) { s.dtype = i32; }, "attention of i32; allowed: f32, f16 and bf16");
  refused([](AttentionSpec& s) { s.keys = 0; }, "attention of 8 queries to 0 keys");
  refused([](AttentionSpec& s) { s.band.right = -1; }, "neither bound may be negative");
  refused([](AttentionSpec& s) { s.band.left = 1, s.keys = 5; }, "from i - 1 to i + any; every query must see a key");
  refused([](AttentionSpec& s) { s.scale = 0.0F; }, "attention with scale 0; allowed: finite numbers above 0");
  refused([](AttentionSpec& s) { s.scale = std::nanf(""); }, "attention with scale nan");
  refused([](AttentionSpec& s) { s.queries = std::int64_t{1} << 47; }, "elements in a tensor");
  const auto attention = device().attention(good);
  Stream stream(device());
  expect_error<InvalidArgument>([&] { attention->forward(stream, {}); }, {"attention without q; it needs one"});
  expect_error<InvalidArgument>([&] { attention->backward(stream, {}); }, {"its spec has no gradients"});
  expect_error<InvalidArgument>([&] { device().merge(stream, {.rows = {.count = 3, .tokens = 2}}); },
                                {"a merge of 3 tokens from 0 of 2"});
}

// However large the logarithms are, weights add up to 1.
TEST_P(AttentionTest, MergesLargeSums) {
  constexpr std::int64_t tokens = 4, heads = 2, dim = 8;
  const std::vector<float> ones(static_cast<std::size_t>(tokens * heads * dim), 1.0F);
  for (const float size : {0.0F, 1e4F, -1e5F, 1e6F}) {
    std::vector<float> lse(static_cast<std::size_t>(tokens * heads));
    std::vector<float> lse_part(lse.size());
    for (std::size_t i = 0; i < lse.size(); ++i) {
      lse[i] = size;
      lse_part[i] = size + static_cast<float>(i) - 4;
    }
    const Buffer sum = upload(ones);
    const Buffer part = upload(ones);
    const Buffer lse_memory = upload(lse);
    const Buffer lse_part_memory = upload(lse_part);
    Stream stream(device());
    device().merge(stream, {.before = sum.data(),
                            .after = sum.data(),
                            .part = part.data(),
                            .lse = lse_memory.data_as<float>(),
                            .lse_part = lse_part_memory.data_as<float>(),
                            .rows = {.count = tokens, .tokens = tokens, .part_tokens = tokens},
                            .heads = heads,
                            .dim = dim});
    stream.synchronize();
    for (const float value : download<float>(sum)) ASSERT_NEAR(value, 1.0F, 1e-6F) << "of " << size;
    const std::vector<float> both = download<float>(lse_memory);
    for (std::size_t i = 0; i < both.size(); ++i) {
      const double larger = static_cast<double>(std::max(lse[i], lse_part[i]));
      const double exact = larger + std::log1p(std::exp(-std::abs(static_cast<double>(lse[i] - lse_part[i]))));
      ASSERT_LE(std::abs(static_cast<double>(both[i]) - exact), 0x1p-23 * std::abs(exact) + 1e-6) << "of " << size;
    }
  }
}

// A range of the tokens of a part, added to another range, from and to both dtypes.
TEST_P(AttentionTest, AddsPartsOfGradients) {
  constexpr std::int64_t batch = 2, heads = 3, dim = 40, row = batch * heads * dim;
  const MergedRows rows{.count = 7, .first = 4, .tokens = 13, .part_first = 1, .part_tokens = 9};
  for (const DType dtype : dtypes()) {
    for (const DType before_dtype : {f32, dtype}) {
      for (const DType after_dtype : {f32, dtype}) {
        const Operand before = random_operand(before_dtype, rows.tokens * row);
        const Operand part = random_operand(dtype, rows.part_tokens * row);
        const Operand after = random_operand(after_dtype, rows.tokens * row);
        Stream stream(device());
        device().merge(stream, {.before = before.memory.data(),
                                .after = after.memory.data(),
                                .part = part.memory.data(),
                                .rows = rows,
                                .batch = batch,
                                .heads = heads,
                                .dim = dim,
                                .dtype = dtype,
                                .before_dtype = before_dtype,
                                .after_dtype = after_dtype});
        stream.synchronize();
        const std::vector<double> actual = values_of(after.memory, after_dtype);
        for (std::int64_t i = 0; i < rows.tokens * row; ++i) {
          const auto e = static_cast<std::size_t>(i);
          const std::int64_t place = i - rows.first * row;
          if (place < 0 || place >= rows.count * row) {
            ASSERT_EQ(actual[e], after.values[e]) << "element " << i << " is outside of the range";
            continue;
          }
          const double expected =
              before.values[e] + part.values[static_cast<std::size_t>(place + rows.part_first * row)];
          ASSERT_LE(std::abs(actual[e] - expected), (0x1p-23 + epsilon(after_dtype)) * std::abs(expected) + 0x1p-24)
              << "element " << i << " of " << name(before_dtype) << " to " << name(after_dtype);
        }
      }
    }
  }
}

// A crew of more threads than the work is cut into: any of them may take a part.
class CrewedAttentionTest : public AttentionTest {
 protected:
  [[nodiscard]] DeviceOptions options() const override { return {.gemm_threads = 16}; }
};

TEST_P(CrewedAttentionTest, IsRight) {
  for (int round = 0; round < 20; ++round) {
    check({.queries = 256, .keys = 256, .heads = 8, .kv_heads = 4, .head_dim = 32});
    if (HasFatalFailure()) return;
  }
}

TANDEM_ON_EACH_DEVICE(AttentionTest);
INSTANTIATE_TEST_SUITE_P(Each, CrewedAttentionTest, ::testing::Values(DeviceType::host), type_name);
INSTANTIATE_TEST_SUITE_P(Each, AttentionGraphTest, ::testing::Values(DeviceType::cuda), type_name);

}  // namespace
}  // namespace tandem::testing

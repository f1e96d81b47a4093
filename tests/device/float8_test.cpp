// SPDX-License-Identifier: Apache-2.0
// GEMMs and casts of 8-bit floats
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/gemm.hpp"

#include "device/on_device.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"

namespace tandem::testing {
namespace {

class Float8Test : public OnDevice {
 protected:
  struct Run {
    std::vector<std::int64_t> pieces{};  ///< rows of each run; empty: one run of all
    std::size_t offset = 0;              ///< of scales, in elements
  };

  void check(const GemmSpec& spec, const Run& run) {
    const std::unique_ptr<Gemm> gemm = device().gemm(spec);
    SCOPED_TRACE(std::to_string(spec.m) + " x " + std::to_string(spec.n) + " x " + std::to_string(spec.k) +
                 (spec.transpose_a ? " T" : " N") + (spec.transpose_b ? "T " : "N ") + std::string(name(spec.dtype)) +
                 " by " + std::string(name(spec.dtype_of_b())) + " into " + std::string(name(spec.out_dtype)) +
                 ", scaling " + name(spec.scaling) + (spec.bias ? ", bias, " : ", ") + name(spec.activation) +
                 ", aux " + name(spec.auxiliary) + ", beta " + std::to_string(spec.beta) + ": " + gemm->describe());
    const std::uint64_t seed = random()();
    const std::vector<double> a = testing::random_values(key(seed, {0}), spec.m * spec.k, spec.dtype);
    const std::vector<double> b = testing::random_values(key(seed, {1}), spec.k * spec.n, spec.dtype_of_b());
    const std::vector<double> bias = testing::random_values(key(seed, {2}), spec.bias ? spec.n : 0, spec.out_dtype);
    const std::vector<double> start = testing::random_values(key(seed, {3}), spec.m * spec.n, spec.out_dtype);
    const std::vector<double> a_scale = scales(spec.m, run.offset);
    const std::vector<double> b_scale = scales(spec.n, run.offset);

    const Buffer a_memory = on_device(spec.transpose_a ? transposed(a, spec.m, spec.k) : a, spec.dtype);
    const Buffer b_memory = on_device(spec.transpose_b ? transposed(b, spec.k, spec.n) : b, spec.dtype_of_b());
    const Buffer bias_memory = on_device(bias, spec.out_dtype);
    const Buffer d = on_device(start, spec.out_dtype);
    const Buffer aux = on_device(start, spec.out_dtype);
    const Buffer a_scale_memory = on_device(a_scale, f32);
    const Buffer b_scale_memory = on_device(b_scale, f32);
    const Stream stream(device());
    const auto row_of = [&](const Buffer& buffer, std::int64_t row) {
      return buffer.data_as<std::byte>() + static_cast<std::size_t>(row * spec.n) * size_of(spec.out_dtype);
    };
    const bool scaled = spec.scaling != Scaling::none;
    std::int64_t first = 0;
    for (const std::int64_t rows : run.pieces.empty() ? std::vector<std::int64_t>{spec.m} : run.pieces) {
      const std::int64_t scale_row = spec.scaling == Scaling::per_row ? first : 0;
      gemm->run(stream, {.a = a_memory.data_as<std::byte>() + first * (spec.transpose_a ? 1 : spec.k),
                         .b = b_memory.data(),
                         .d = row_of(d, first),
                         .bias = spec.bias ? bias_memory.data() : nullptr,
                         .aux = spec.auxiliary == Auxiliary::none ? nullptr : row_of(aux, first),
                         .a_scale = scaled ? a_scale_memory.data_as<float>() + run.offset + scale_row : nullptr,
                         .b_scale = scaled ? b_scale_memory.data_as<float>() + run.offset : nullptr,
                         .m = rows,
                         .lda = spec.transpose_a ? spec.m : 0});
      first += rows;
    }
    ASSERT_EQ(first, spec.m);
    stream.synchronize();

    const auto scale_of = [&](const std::vector<double>& all, std::int64_t line) {
      if (!scaled) return 1.0;
      return all[run.offset + (spec.scaling == Scaling::per_row ? static_cast<std::size_t>(line) : 0)];
    };
    std::vector<double> scaled_a = a;
    std::vector<double> scaled_b = b;
    for (std::size_t i = 0; i < a.size(); ++i) scaled_a[i] *= scale_of(a_scale, static_cast<std::int64_t>(i) / spec.k);
    for (std::size_t i = 0; i < b.size(); ++i) scaled_b[i] *= scale_of(b_scale, static_cast<std::int64_t>(i) % spec.n);
    Product product{.m = spec.m, .n = spec.n, .k = spec.k, .a = scaled_a, .b = scaled_b, .bias = bias};
    product.alpha = static_cast<double>(spec.alpha);
    product.beta = static_cast<double>(spec.beta);
    if (spec.beta != 0.0F) product.start = start;
    product.activation = spec.activation;
    product.dtype = spec.out_dtype;
    product.summed_within = on_host() ? 0 : float8_error(spec.k, spec.fast_accum);
    product.rounds_between = !on_host();
    const Comparison compared = compare(expected_product(product), download<std::byte>(d).data());
    ASSERT_EQ(compared.wrong, 0) << to_string(compared);
    if (spec.auxiliary == Auxiliary::none) return;
    product.activation = Activation::none;
    const Comparison kept = compare(expected_product(product), download<std::byte>(aux).data());
    ASSERT_EQ(kept.wrong, 0) << "aux: " << to_string(kept);
  }

  [[nodiscard]] std::vector<double> scales(std::int64_t count, std::size_t offset) {
    std::vector<double> values(static_cast<std::size_t>(count) + offset);
    for (double& value : values) value = static_cast<double>(random_between(1, 1000)) / 256;
    return values;
  }

  /// Whether a library multiplies 8-bit floats with this scaling.
  [[nodiscard]] bool takes(Scaling scaling) const {
    const GemmSpec spec{
        .m = 64, .n = 64, .k = 64, .transpose_b = true, .dtype = f8e4m3, .out_dtype = bf16, .scaling = scaling};
    return device().gemm(spec)->describe().starts_with("cublasLt");
  }

  [[nodiscard]] Buffer on_device(const std::vector<double>& values, DType dtype) const {
    std::vector<std::byte> bytes(values.size() * size_of(dtype));
    store(values, dtype, bytes.data());
    return upload(bytes);
  }

  /// Calls `body` with each pair of dtypes, result and scaling, in the spec.
  template <typename Body> void for_each_kind(GemmSpec spec, const Body& body) {
    for (const DType a : {f8e4m3, f8e5m2}) {
      for (const DType b : {f8e4m3, f8e5m2}) {
        for (const DType out : {bf16, f16, f32}) {
          for (const Scaling scaling : {Scaling::none, Scaling::per_tensor, Scaling::per_row}) {
            spec.dtype = a;
            spec.b_dtype = b;
            spec.out_dtype = out;
            spec.scaling = scaling;
            body(spec);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
};

TEST_P(Float8Test, IsRightWhereALibraryMultiplies) {
  const GemmSpec shapes[] = {
      {.m = 130, .n = 96, .k = 272},
      {.m = 16, .n = 32, .k = 3008, .bias = true},
      {.m = 64, .n = 48, .k = 64, .alpha = -0.5F, .beta = 0.75F},
      {.m = 7, .n = 16, .k = 16, .bias = true, .activation = Activation::gelu_erf, .beta = 1.0F}};
  for (GemmSpec spec : shapes) {
    spec.transpose_b = true;
    for_each_kind(spec, [&](const GemmSpec& each) {
      check(each, {});
      if (on_host() || (each.dtype == f8e5m2 && each.dtype_of_b() == f8e5m2)) return;
      const std::string described = device().gemm(each)->describe();
      EXPECT_EQ(described.starts_with("cublasLt"), takes(each.scaling)) << described;
    });
    if (HasFatalFailure()) return;
  }
  if (!on_host() && (!takes(Scaling::none) || !takes(Scaling::per_row))) {
    GTEST_SKIP() << "the results are right, but this GPU's library does not multiply all of them";
  }
}

TEST_P(Float8Test, IsRightInAnySizeAndLayout) {
  for (int round = 0; round < 8; ++round) {
    GemmSpec spec{.m = random_between(1, 90),
                  .n = random_between(1, 90),
                  .k = random_between(1, 90),
                  .transpose_a = (round & 1) != 0,
                  .transpose_b = (round & 2) != 0,
                  .bias = random_between(0, 1) == 1,
                  .activation = random_between(0, 1) == 1 ? Activation::gelu_erf : Activation::none,
                  .alpha = random_between(0, 1) == 1 ? 1.0F : -0.5F,
                  .beta = random_between(0, 1) == 1 ? 0.0F : 0.75F};
    for_each_kind(spec, [&](const GemmSpec& each) { check(each, {}); });
    if (HasFatalFailure()) return;
  }
}

// Wherever their rows' scales begin.
TEST_P(Float8Test, IsRightInPieces) {
  GemmSpec spec{.m = 301, .n = 80, .k = 160, .transpose_b = true, .bias = true};
  for_each_kind(spec, [&](const GemmSpec& each) { check(each, {.pieces = {100, 77, 124}, .offset = 1}); });
}

TEST_P(Float8Test, IsRightAcrossPanels) {
  for (const Scaling scaling : {Scaling::per_tensor, Scaling::per_row}) {
    for (const bool transpose : {false, true}) {
      check({.m = 263,
             .n = 528,
             .k = 1040,
             .transpose_a = !transpose,
             .transpose_b = transpose,
             .dtype = f8e4m3,
             .out_dtype = bf16,
             .scaling = scaling},
            {});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Float8Test, KeepsWhatItActivates) {
  GemmSpec spec{.m = 96, .n = 64, .k = 128, .transpose_b = true, .auxiliary = Auxiliary::output};
  for (const Activation activation : {Activation::gelu_erf, Activation::gelu_tanh}) {
    for (const bool bias : {false, true}) {
      spec.activation = activation;
      spec.bias = bias;
      for_each_kind(spec, [&](const GemmSpec& each) { check(each, {}); });
      if (HasFatalFailure()) return;
    }
  }
}

// Nothing is multiplied then, not even by scales that are no numbers.
TEST_P(Float8Test, TakesNothingAtAll) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Buffer scales = upload(std::vector<float>(16, nan));
  const Buffer bias = on_device({1, 2, 3, 4}, bf16);
  const Buffer d = on_device(std::vector<double>(16, 8), bf16);
  const std::unique_ptr<Gemm> gemm = device().gemm({.m = 4,
                                                    .n = 4,
                                                    .k = 16,
                                                    .dtype = f8e4m3,
                                                    .out_dtype = bf16,
                                                    .scaling = Scaling::per_row,
                                                    .bias = true,
                                                    .beta = 0.5F});
  const Stream stream(device());
  for (const float* const scale : {scales.data_as<float>(), static_cast<float*>(nullptr)}) {
    gemm->run(stream, {.d = d.data(), .bias = bias.data(), .a_scale = scale, .k = 0});
  }
  stream.synchronize();
  const std::vector<double> out = load(download<std::byte>(d).data(), 16, bf16);
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], 2 + 1.5 * static_cast<double>(i % 4 + 1)) << i;  // 0.5 · (0.5 · 8 + bias) + bias
  }
}

TEST_P(Float8Test, SumsWithFewerBitsWhereThatIsAllowed) {
  constexpr std::int64_t k = 8192;
  const Buffer a = on_device(testing::random_values(random()(), 64 * k, f8e4m3), f8e4m3);
  const Buffer b = on_device(testing::random_values(random()(), 64 * k, f8e4m3), f8e4m3);
  const auto sums = [&](bool fast) {
    const std::unique_ptr<Gemm> gemm = device().gemm(
        {.m = 64, .n = 64, .k = k, .transpose_b = true, .dtype = f8e4m3, .out_dtype = f32, .fast_accum = fast});
    const Buffer d = memory(64 * 64 * sizeof(float));
    const Stream stream(device());
    gemm->run(stream, {.a = a.data(), .b = b.data(), .d = d.data()});
    stream.synchronize();
    return download<float>(d);
  };
  EXPECT_EQ(sums(false) == sums(true), on_host() || !takes(Scaling::none));
}

TEST_P(Float8Test, IsRightWithFewerBits) {
  for (const Scaling scaling : {Scaling::none, Scaling::per_tensor, Scaling::per_row}) {
    for (const std::int64_t k : {std::int64_t{64}, std::int64_t{1024}, std::int64_t{8192}}) {
      check({.m = 80,
             .n = 64,
             .k = k,
             .transpose_b = true,
             .dtype = f8e4m3,
             .out_dtype = f32,
             .scaling = scaling,
             .fast_accum = true},
            {});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Float8Test, RefusesWhatItCannotMultiply) {
  const auto expect_refused = [&](const GemmSpec& spec, std::initializer_list<std::string> says) {
    expect_error<InvalidArgument>([&] { static_cast<void>(device().gemm(spec)); }, says);
  };
  expect_refused({.m = 4, .n = 4, .k = 4, .dtype = f8e4m3, .out_dtype = f8e4m3}, {"into f8e4m3", "f32, f16 or bf16"});
  expect_refused({.m = 4, .n = 4, .k = 4, .dtype = f8e4m3, .out_dtype = bf16, .b_dtype = bf16},
                 {"f8e4m3 by bf16", "f8e4m3 or f8e5m2"});
  expect_refused({.m = 4, .n = 4, .k = 4, .dtype = bf16, .out_dtype = bf16, .b_dtype = f8e4m3}, {"bf16 by f8e4m3"});
  expect_refused({.m = 4, .n = 4, .k = 4, .scaling = Scaling::per_row}, {"f32", "scaling per_row", "f8e5m2"});
  expect_refused({.m = 4, .n = 4, .k = 4, .dtype = bf16, .out_dtype = bf16, .fast_accum = true},
                 {"bf16", "fast_accum"});
  expect_refused({.m = 4, .n = 4, .k = 4, .dtype = f8e4m3, .scaling = static_cast<Scaling>(7)}, {"scaling number 7"});

  const std::unique_ptr<Gemm> gemm =
      device().gemm({.m = 4, .n = 4, .k = 4, .dtype = f8e4m3, .scaling = Scaling::per_tensor});
  const Buffer memory = upload(std::vector<float>(64));
  const Stream stream(device());
  const auto run = [&](const float* a_scale, const float* b_scale) {
    gemm->run(stream,
              {.a = memory.data(), .b = memory.data(), .d = memory.data(), .a_scale = a_scale, .b_scale = b_scale});
  };
  expect_error<InvalidArgument>([&] { run(nullptr, memory.data_as<float>()); }, {"without the scale of A"});
  expect_error<InvalidArgument>([&] { run(memory.data_as<float>(), nullptr); }, {"without the scale of B"});
}

TANDEM_ON_EACH_DEVICE(Float8Test);

}  // namespace
}  // namespace tandem::testing

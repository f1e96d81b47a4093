// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/gemm.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tandem/base/error.hpp"

#include "device/on_device.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"

namespace tandem::testing {
namespace {

std::string text(const GemmSpec& s) {
  return ::testing::PrintToString(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k) +
         (s.transpose_a ? " T" : " N") + (s.transpose_b ? "T " : "N ") + std::string(name(s.dtype)) + " into " +
         std::string(name(s.out_dtype)) + " alpha " + std::to_string(s.alpha) + " beta " + std::to_string(s.beta) +
         " ld " + std::to_string(s.lda) + "," + std::to_string(s.ldb) + "," + std::to_string(s.ldd) +
         (s.bias ? " bias " : " ") + name(s.activation);
}

class GemmTest : public OnDevice {
 protected:
  // Rows of one product's pieces, in order; empty: it runs as one.
  using Pieces = std::vector<std::int64_t>;

  template <typename T, typename Out>
  void check_typed(GemmSpec spec, std::int64_t m, std::int64_t k, float run_beta, const Pieces& pieces) {
    SCOPED_TRACE(text(spec) + ", run with m " + std::to_string(m) + ", k " + std::to_string(k) + ", pieces " +
                 ::testing::PrintToString(pieces));
    const std::int64_t run_m = m < 0 ? spec.m : m;
    const std::int64_t run_k = k < 0 ? spec.k : k;
    const auto pitch = [](std::int64_t given, std::int64_t dense) { return given != 0 ? given : dense; };
    const std::int64_t lda = pitch(spec.lda, spec.transpose_a ? run_m : run_k);
    const std::int64_t ldb = pitch(spec.ldb, spec.transpose_b ? run_k : spec.n);
    const std::int64_t ldd = pitch(spec.ldd, spec.n);
    const auto elements = [](std::int64_t rows, std::int64_t ld) { return static_cast<std::size_t>(rows * ld + 1); };
    const std::vector<T> a = random_values<T>(random(), elements(spec.transpose_a ? spec.k : spec.m, lda));
    const std::vector<T> b = random_values<T>(random(), elements(spec.transpose_b ? spec.n : spec.k, ldb));
    const std::vector<Out> bias = random_values<Out>(random(), static_cast<std::size_t>(spec.n));
    std::vector<Out> d = random_values<Out>(random(), elements(spec.m, ldd));
    const float beta = run_beta < 0 ? spec.beta : run_beta;
    if (beta == 0.0F) d.assign(d.size(), Out(std::numeric_limits<float>::quiet_NaN()));
    const Buffer a_memory = upload(a);
    const Buffer b_memory = upload(b);
    const Buffer bias_memory = upload(bias);
    const Buffer c_memory = upload(d);
    const void* const c = apart_ ? c_memory.data() : nullptr;
    const std::vector<Out> before =
        apart_ ? std::vector<Out>(d.size(), Out(std::numeric_limits<float>::quiet_NaN())) : d;
    const Buffer d_memory = upload(before);
    Stream stream(device());
    const std::unique_ptr<Gemm> gemm = device().gemm(spec, algorithms_);
    EXPECT_FALSE(gemm->describe().empty());
    const void* const bias_data = spec.bias ? bias_memory.data() : nullptr;
    // Nothing of the weights that the same object multiplied before may be left in what counts.
    const Buffer other_b = upload(random_values<T>(random(), b.size()));
    if (pieces.empty()) {
      gemm->run(stream, {.a = a_memory.data(),
                         .b = b_memory.data(),
                         .d = d_memory.data(),
                         .c = c,
                         .bias = bias_data,
                         .m = m,
                         .k = k,
                         .beta = run_beta});
    }
    for (const Buffer* const weights : {&other_b, &b_memory}) {
      if (beta != 0.0F && weights == &other_b) continue;
      std::int64_t row = 0;
      Weights use = Weights::first;
      for (const std::int64_t rows : pieces) {
        gemm->run(stream, {.a = a_memory.data_as<T>() + (spec.transpose_a ? row : row * lda),
                           .b = weights->data(),
                           .d = d_memory.data_as<Out>() + row * ldd,
                           .c = apart_ ? c_memory.data_as<Out>() + row * ldd : nullptr,
                           .bias = bias_data,
                           .m = rows,
                           .k = k,
                           .lda = lda,
                           .beta = run_beta,
                           .weights = use});
        row += rows;
        use = Weights::again;
      }
      ASSERT_EQ(row, pieces.empty() ? 0 : run_m);
    }
    stream.synchronize();
    const std::vector<Out> out = download<Out>(d_memory);
    const auto at = [](std::int64_t row, std::int64_t ld, std::int64_t column) {
      return static_cast<std::size_t>(row * ld + column);
    };
    // Rows of A and columns of B, each in one piece.
    const auto lines = [&](const std::vector<T>& from, std::int64_t count, std::int64_t ld, bool along_columns) {
      std::vector<double> values;
      values.reserve(static_cast<std::size_t>(count * run_k));
      for (std::int64_t line = 0; line < count; ++line) {
        for (std::int64_t p = 0; p < run_k; ++p) {
          values.push_back(to_double(from[along_columns ? at(p, ld, line) : at(line, ld, p)]));
        }
      }
      return values;
    };
    const std::vector<double> rows_of_a = lines(a, run_m, lda, spec.transpose_a);
    const std::vector<double> columns_of_b = lines(b, spec.n, ldb, !spec.transpose_b);
    const double unit = spec.dtype == f64 ? 0x1p-53 : 0x1p-24;
    for (std::int64_t i = 0; i < spec.m; ++i) {
      for (std::int64_t j = 0; j < ldd; ++j) {
        const std::size_t where = at(i, ldd, j);
        if (i >= run_m || j >= spec.n) {
          ASSERT_EQ(std::memcmp(&out[where], &before[where], sizeof(Out)), 0)
              << "written outside, at " << i << ", " << j;
          continue;
        }
        const auto line = [run_k](const std::vector<double>& from, std::int64_t index) {
          return std::span(from).subspan(static_cast<std::size_t>(index * run_k), static_cast<std::size_t>(run_k));
        };
        auto [sum, magnitude] = dot(line(rows_of_a, i), line(columns_of_b, j));
        const double alpha = static_cast<double>(spec.alpha);
        double total = alpha * sum;
        magnitude *= std::abs(alpha);
        if (beta != 0.0F) total += static_cast<double>(beta) * to_double(d[where]);
        if (beta != 0.0F) magnitude += std::abs(static_cast<double>(beta) * to_double(d[where]));
        if (spec.bias) total += to_double(bias[static_cast<std::size_t>(j)]);
        if (spec.bias) magnitude += std::abs(to_double(bias[static_cast<std::size_t>(j)]));
        const double expected = gelu(spec.activation, total);
        // A library's own epilogue may round the sum before the activation, or take the hardware's tanh: then it is
        // held to the output's precision of what was summed (the slope of GELU is at most 1.13).
        const bool coarse = !on_host() && spec.activation != Activation::none && size_of(spec.out_dtype) == 2;
        // A library may also round the product to the output's dtype before it adds beta · D.
        const double product_rounded = !on_host() && beta != 0.0F ? epsilon(spec.out_dtype) * magnitude : 0.0;
        const double bound = product_rounded + (2 * std::sqrt(static_cast<double>(run_k)) + 10) * unit * magnitude +
                             epsilon(spec.out_dtype) * (std::abs(expected) + (coarse ? 1.25 * magnitude : 0.0)) +
                             (spec.out_dtype == f16 ? 0x1p-24 : 0.0);
        ASSERT_LE(std::abs(to_double(out[where]) - expected), bound)
            << "at " << i << ", " << j << ", expected " << expected;
      }
    }
  }

  void check(const GemmSpec& spec, std::int64_t m = -1, std::int64_t k = -1, float beta = -1.0F,
             const Pieces& pieces = {}) {
    switch (spec.dtype) {
      case DType::f32: return check_typed<float, float>(spec, m, k, beta, pieces);
      case DType::f16:
        return spec.out_dtype == f32 ? check_typed<Half, float>(spec, m, k, beta, pieces)
                                     : check_typed<Half, Half>(spec, m, k, beta, pieces);
      case DType::bf16:
        return spec.out_dtype == f32 ? check_typed<BFloat16, float>(spec, m, k, beta, pieces)
                                     : check_typed<BFloat16, BFloat16>(spec, m, k, beta, pieces);
      case DType::f64:
        return spec.out_dtype == f32 ? check_typed<double, float>(spec, m, k, beta, pieces)
                                     : check_typed<double, double>(spec, m, k, beta, pieces);
      default: FAIL();
    }
  }

  void check_pieces(const GemmSpec& spec, const Pieces& pieces) {
    check(spec, std::reduce(pieces.begin(), pieces.end()), -1, -1.0F, pieces);
  }

  // Every combination of transposes, dtypes, epilogues, pitches and run-time extents, at random sizes.
  void check_random(std::int64_t rounds, std::int64_t largest) {
    struct Types {
      DType in;
      DType out;
    };
    std::vector<Types> types{{f32, f32}, {f16, f16}, {f16, f32}, {bf16, bf16}, {bf16, f32}};
    if (on_host()) types.insert(types.end(), {{f64, f64}, {f64, f32}});
    for (std::int64_t round = 0; round < rounds; ++round) {
      for (const Types& type : types) {
        GemmSpec spec{.m = random_between(1, largest),
                      .n = random_between(1, largest),
                      .k = random_between(1, largest),
                      .transpose_a = (round & 1) != 0,
                      .transpose_b = (round & 2) != 0,
                      .dtype = type.in,
                      .out_dtype = type.out,
                      .bias = random_between(0, 1) == 1,
                      .activation = static_cast<Activation>(random_between(0, 2)),
                      .alpha = random_between(0, 1) == 1 ? 1.0F : -0.5F,
                      .beta = random_between(0, 1) == 1 ? 0.0F : 0.75F};
        if (random_between(0, 1) == 1) {
          spec.lda = (spec.transpose_a ? spec.m : spec.k) + random_between(0, 16);
          spec.ldb = (spec.transpose_b ? spec.k : spec.n) + random_between(0, 16);
          spec.ldd = spec.n + random_between(0, 16);
        }
        check(spec);
        if (HasFatalFailure()) return;
        check(spec, random_between(0, spec.m), random_between(0, spec.k), random_between(0, 1) == 1 ? 1.0F : -1.0F);
        if (HasFatalFailure()) return;
      }
    }
  }

  bool apart_ = false;                     // beta multiplies a C that is not D
  std::vector<GemmAlgorithm> algorithms_;  // that products are checked by; none: the device's own
};

TEST_P(GemmTest, WhatIsAddedMayLieElsewhere) {
  apart_ = true;
  check_random(8, 70);
  for (const DType dtype : {f32, bf16}) {
    GemmSpec spec{.m = 300, .n = 130, .k = 200, .transpose_b = true, .dtype = dtype, .out_dtype = dtype, .beta = 1.0F};
    check_pieces(spec, {100, 77, 123});
    spec.bias = true;
    spec.activation = Activation::gelu_erf;
    check_pieces(spec, {100, 77, 123});
    check(spec, 300, 0);
  }
}

TEST_P(GemmTest, AnAuxiliaryGoesWithWhatDHolds) {
  const std::unique_ptr<Gemm> gemm =
      device().gemm({.m = 4, .n = 4, .k = 4, .activation = Activation::gelu_tanh, .auxiliary = Auxiliary::output});
  const Buffer memory = upload(std::vector<float>(64));
  const Stream stream(device());
  expect_error<InvalidArgument>(
      [&] {
        gemm->run(stream, {.a = memory.data(),
                           .b = memory.data(),
                           .d = memory.data(),
                           .c = memory.data(),
                           .aux = memory.data(),
                           .beta = 1.0F});
      },
      {"a C of its own", "auxiliary output"});
}

TEST_P(GemmTest, IsRightForRandomShapes) { check_random(12, 90); }

TEST_P(GemmTest, IsRightByEachOfItsAlgorithms) {
  const GemmSpec shapes[] = {{.m = 136, .n = 72, .k = 264, .beta = 0.5F},
                             {.m = 16, .n = 24, .k = 3000, .bias = true},  // with its k split
                             {.m = 67, .n = 41, .k = 53, .bias = true, .activation = Activation::gelu_tanh}};
  for (GemmSpec spec : shapes) {
    for (const int layout : {0, 1, 2, 3}) {
      for (const DType dtype : {f32, f16, bf16}) {
        spec.transpose_a = (layout & 1) != 0;
        spec.transpose_b = (layout & 2) != 0;
        spec.dtype = dtype;
        spec.out_dtype = layout == 3 ? f32 : dtype;
        const std::vector<std::string> names = device().gemm(spec)->algorithms(spec.m);
        // Of 16 bits on odd addresses there may be none.
        if (!device().has_gemm_algorithms() || dtype == f32) {
          EXPECT_EQ(!names.empty(), device().has_gemm_algorithms()) << text(spec);
        }
        for (const std::string& name : names) {
          SCOPED_TRACE(name);
          algorithms_ = {{.m = spec.m, .name = name}};
          expect_says(device().gemm(spec, algorithms_)->describe(), {name, "tuned for m = " + std::to_string(spec.m)});
          check(spec);
          check(spec, spec.m - 3, spec.k - 8);  // which it may not fit
          if (HasFatalFailure()) return;
        }
        algorithms_.clear();
      }
    }
  }
}

TEST_P(GemmTest, NamesItsAlgorithmsForEveryone) {
  const GemmSpec spec{.m = 256, .n = 128, .k = 512, .transpose_b = true, .dtype = bf16, .out_dtype = bf16};
  GemmSpec half = spec;
  half.m = 128;
  const auto gemm = device().gemm(spec);
  const auto another = open_device(device().id(), options());
  EXPECT_EQ(gemm->algorithms(256).empty(), !device().has_gemm_algorithms());
  EXPECT_EQ(gemm->algorithms(256), another->gemm(spec)->algorithms(256));
  EXPECT_EQ(gemm->algorithms(128), another->gemm(half)->algorithms(128));
  EXPECT_TRUE(gemm->algorithms(0).empty());
  if (!device().has_gemm_algorithms()) return;
  // For pieces alone, and for pieces and the whole.
  std::vector<GemmAlgorithm> algorithms{{.m = 128, .name = another->gemm(half)->algorithms(128).back()}};
  expect_says(device().gemm(spec, algorithms)->describe(), {"tuned for m = 128,"});
  algorithms.insert(algorithms.begin(), {.m = 256, .name = gemm->algorithms(256).back()});
  expect_says(device().gemm(spec, algorithms)->describe(), {algorithms[0].name, "tuned for m = 256, 128,"});
}

TEST_P(GemmTest, RefusesAlgorithmsThatAreNotOffered) {
  const GemmSpec spec{.m = 64, .n = 64, .k = 64};
  const auto gemm = device().gemm(spec);
  EXPECT_THROW(static_cast<void>(gemm->algorithms(65)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(gemm->algorithms(-1)), InvalidArgument);
  const auto make = [&](std::int64_t m, const std::string& name) {
    const GemmAlgorithm algorithm{.m = m, .name = name};
    static_cast<void>(device().gemm(spec, {&algorithm, 1}));
  };
  expect_error<InvalidArgument>([&] { make(64, "algo 7 of telepathy"); }, {"algo 7 of telepathy", "m = 64"});
  if (!device().has_gemm_algorithms()) return;
  const std::string name = gemm->algorithms(64).front();
  expect_error<InvalidArgument>([&] { make(64, name + "0"); }, {name + "0"});
  expect_error<InvalidArgument>([&] { make(48, name); }, {"64", "half"});
}

TEST_P(GemmTest, IsRightAcrossPanels) {
  // Larger than the panels that 16-bit operands go through, by a little.
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const DType dtype : {f32, bf16}) {
        check({.m = 263,
               .n = 517,
               .k = 1029,
               .transpose_a = transpose_a,
               .transpose_b = transpose_b,
               .dtype = dtype,
               .out_dtype = dtype,
               .bias = true,
               .activation = Activation::gelu_tanh,
               .beta = 0.5F});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(GemmTest, IsRightInPiecesThatShareWeights) {
  for (const bool transpose_b : {false, true}) {
    for (const std::int64_t padding : {0, 5}) {
      for (const Activation activation : {Activation::none, Activation::gelu_erf, Activation::gelu_tanh}) {
        const std::int64_t n = random_between(1, 130);
        const std::int64_t k = random_between(1, 130);
        GemmSpec spec{.m = 90, .n = n, .k = k, .transpose_b = transpose_b, .ldb = (transpose_b ? k : n) + padding};
        check_pieces(spec, {17, 1, 40, 17});
        check_pieces(spec, {0, 33, 0, 1});  // the first may have no rows
        spec.bias = true;
        spec.activation = activation;
        check_pieces(spec, {17, 1, 40, 17});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(GemmTest, IsRightInLongPiecesAndInMany) {
  GemmSpec spec{.m = 1200, .n = 67, .k = 41, .transpose_b = true};
  check_pieces(spec, {600, 71, 529});
  check_pieces(spec, {71, 600, 529});
  Pieces growing;  // of more lengths than a device keeps kernels for
  for (std::int64_t rows = 1; rows <= 45; ++rows) growing.push_back(rows);
  check_pieces(spec, growing);
  spec.bias = true;
  spec.activation = Activation::gelu_erf;
  check_pieces(spec, {600, 71, 529});
  check_pieces(spec, {1200});
}

TEST_P(GemmTest, IsRightInPiecesOfAnyKind) {
  const Pieces pieces{17, 1, 40, 17};
  for (const DType dtype : {f32, f16, bf16}) {
    for (const bool transpose_a : {false, true}) {
      for (const float beta : {0.0F, 0.5F}) {
        check_pieces({.m = 75,
                      .n = 37,
                      .k = 51,
                      .transpose_a = transpose_a,
                      .transpose_b = true,
                      .dtype = dtype,
                      .out_dtype = dtype,
                      .alpha = transpose_a ? 1.0F : -0.5F,
                      .beta = beta,
                      .lda = 80},
                     pieces);
        if (HasFatalFailure()) return;
      }
    }
  }
  check_pieces({.m = 75, .n = 37, .k = 51, .beta = 0.5F}, pieces);
  check_pieces({.m = 75, .n = 37, .k = 51, .ldd = 40}, pieces);
  check({.m = 75, .n = 37, .k = 51, .ldb = 51}, 75, 50, -1.0F, pieces);
  check({.m = 75, .n = 37, .k = 51, .bias = true}, 75, 0, -1.0F, pieces);
}

TEST_P(GemmTest, LeavesSharedWeightsAloneInBetween) {
  // Of 300 rows, with a last step: the host does that in blocks, which share weights of their own.
  const std::int64_t n = 40;
  const GemmSpec spec{.m = 300, .n = n, .k = n, .bias = true};
  std::vector<float> identity(static_cast<std::size_t>(n * n));
  for (std::size_t i = 0; i < identity.size(); i += static_cast<std::size_t>(n) + 1) identity[i] = 1;
  const std::vector<float> x = random_values<float>(random(), static_cast<std::size_t>(spec.m * n));
  const Buffer a = upload(x);
  const Buffer b = upload(identity);
  const Buffer other_b = upload(random_values<float>(random(), identity.size()));
  const Buffer bias = upload(std::vector<float>(static_cast<std::size_t>(n), 0.0F));
  const Buffer d = memory(x.size() * 4);
  const Buffer unread = memory(x.size() * 4);
  Stream stream(device());
  const auto gemm = device().gemm(spec);
  const auto run = [&](const Buffer& weights, const Buffer& out, std::int64_t begin, std::int64_t rows, Weights use) {
    gemm->run(stream, {.a = a.data_as<float>() + begin * n,
                       .b = weights.data(),
                       .d = out.data_as<float>() + begin * n,
                       .bias = bias.data(),
                       .m = rows,
                       .weights = use});
  };
  run(b, d, 0, 100, Weights::first);
  run(other_b, unread, 0, 300, Weights::once);
  run(b, d, 100, 200, Weights::again);
  stream.synchronize();
  EXPECT_EQ(download<float>(d), x);
}

TEST_P(GemmTest, TakesNothingAtAll) {
  for (const DType dtype : {f32, bf16}) {
    const GemmSpec spec{.m = 5, .n = 7, .k = 9, .dtype = dtype, .out_dtype = dtype, .bias = true, .beta = 0.5F};
    check(spec, 5, 0);
    check(spec, 0, 9);
    check(spec, 0, 0);
    check({.m = 0, .n = 7, .k = 9, .dtype = dtype, .out_dtype = dtype});
    check({.m = 5, .n = 0, .k = 9, .dtype = dtype, .out_dtype = dtype});
    check({.m = 5, .n = 7, .k = 0, .dtype = dtype, .out_dtype = dtype});
    check(
        {.m = 5, .n = 7, .k = 0, .dtype = dtype, .out_dtype = dtype, .bias = true, .activation = Activation::gelu_erf});
  }
}

// The sums themselves are compared with fp64 by the linear layers' tests.
TEST_P(GemmTest, KeepsWhatItActivatesAndGoesBackThroughIt) {
  constexpr std::int64_t m = 37;
  constexpr std::int64_t n = 53;
  constexpr auto elements = static_cast<std::size_t>(m * n);
  const auto check_kept = [&]<typename T>(DType dtype, Activation activation, T) {
    for (const std::int64_t k : {0, 29}) {
      for (const float beta : {0.0F, 0.5F}) {
        const Buffer a = upload(random_values<T>(random(), static_cast<std::size_t>(m * 29)));
        const Buffer b = upload(random_values<T>(random(), static_cast<std::size_t>(n * 29)));
        const Buffer start = upload(random_values<T>(random(), elements));
        const Buffer bias = upload(random_values<T>(random(), static_cast<std::size_t>(n)));
        const auto d = std::array{memory(start.bytes()), memory(start.bytes()), memory(start.bytes())};
        const Buffer aux = memory(start.bytes());
        const Buffer mapped = memory(start.bytes());
        Stream stream(device());
        for (const Buffer& each : d) {
          device().copy(stream, {.dst = each.data(), .src = start.data(), .bytes = each.bytes()});
        }
        GemmSpec spec{.m = m, .n = n, .k = 29, .dtype = dtype, .out_dtype = dtype, .bias = true, .beta = beta};
        const auto run = [&](Auxiliary auxiliary, const Buffer& into) {
          spec.activation = auxiliary == Auxiliary::none ? Activation::none : activation;
          spec.auxiliary = auxiliary;
          device().gemm(spec)->run(stream, {.a = a.data(),
                                            .b = b.data(),
                                            .d = into.data(),
                                            .bias = bias.data(),
                                            .aux = auxiliary == Auxiliary::none ? nullptr : aux.data(),
                                            .m = m,
                                            .k = k});
        };
        const auto expect_mapped = [&](MapKind kind, const Buffer& x, const void* y, const Buffer& result) {
          device().map(stream, {.kind = kind,
                                .out = mapped.data(),
                                .x = x.data(),
                                .y = y,
                                .count = m * n,
                                .dtype = dtype,
                                .out_dtype = dtype,
                                .activation = activation});
          stream.synchronize();
          const std::vector<T> got = download<T>(result);
          const std::vector<T> wanted = download<T>(mapped);
          EXPECT_EQ(std::memcmp(got.data(), wanted.data(), result.bytes()), 0) << text(spec);
        };
        run(Auxiliary::output, d[0]);
        expect_mapped(MapKind::activate, aux, nullptr, d[0]);
        run(Auxiliary::none, d[1]);
        run(Auxiliary::gradient, d[2]);
        expect_mapped(MapKind::activate_grad, aux, d[1].data(), d[2]);
      }
    }
  };
  for (const Activation activation : {Activation::gelu_erf, Activation::gelu_tanh}) {
    check_kept(f32, activation, float{});
    check_kept(f16, activation, Half{});
    check_kept(bf16, activation, BFloat16{});
  }
}

TEST_P(GemmTest, RunsInTheStreamsOrderAndOutlivesItsObject) {
  const std::int64_t n = 300;
  const auto elements = static_cast<std::size_t>(n * n);
  std::vector<float> identity(elements);
  for (std::size_t i = 0; i < elements; i += static_cast<std::size_t>(n) + 1) identity[i] = 1;
  const std::vector<float> x = random_values<float>(random(), elements);
  const Buffer a = upload(x);
  const Buffer b = upload(identity);
  const Buffer c = memory(elements * 4);
  const Buffer d = memory(elements * 4);
  Stream stream(device());
  {
    const auto gemm = device().gemm({.m = n, .n = n, .k = n});
    gemm->run(stream, {.a = a.data(), .b = b.data(), .d = c.data()});
    device().copy(stream, {.dst = d.data(), .src = c.data(), .bytes = elements * 4});
    device().fill(stream, c.data(), std::byte{0}, elements * 4);
    if (!on_host()) stream.synchronize();
  }
  stream.synchronize();
  EXPECT_EQ(download<float>(d), x);
}

TEST_P(GemmTest, RefusesWhatItCannotDo) {
  EXPECT_THROW(static_cast<void>(device().gemm({.m = -1, .n = 1, .k = 1})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(device().gemm({.m = 4, .n = 4, .k = 4, .lda = 3})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(device().gemm({.m = 4, .n = 4, .k = 4, .dtype = bf16, .out_dtype = f16})),
               InvalidArgument);
  GemmSpec kept{.m = 4, .n = 4, .k = 4, .auxiliary = Auxiliary::output};
  expect_error<InvalidArgument>([&] { static_cast<void>(device().gemm(kept)); }, {"auxiliary output", "gelu_erf"});
  kept.activation = Activation::gelu_tanh;
  kept.ldd = 5;
  expect_error<InvalidArgument>([&] { static_cast<void>(device().gemm(kept)); }, {"auxiliary output", "5", "dense"});
  EXPECT_THROW(static_cast<void>(device().gemm({.m = 4, .n = 4, .k = 4, .dtype = i32, .out_dtype = i32})), Unsupported);
  const auto none = device().gemm({.m = 0, .n = 4, .k = 4});
  const Stream stream(device());
  expect_error<InvalidArgument>([&] { none->run(stream, {.m = 1}); }, {"m = 1, k = 4", "at most 0 and 4"});
  expect_error<InvalidArgument>([&] { none->run(stream, {.k = 5}); }, {"m = 0, k = 5", "at most 0 and 4"});
}

TANDEM_ON_EACH_DEVICE(GemmTest);

TEST(HostGemm, SaysWhetherItPacksWeightsForPieces) {
  const auto device = open_device({});
  const auto packs = [&device](const GemmSpec& spec) {
    return device->gemm(spec)->describe().find("weights packed once for products in pieces") != std::string::npos;
  };
  const GemmSpec spec{.m = 64, .n = 48, .k = 32};
  GemmSpec padded = spec;
  padded.lda = 40;
  EXPECT_FALSE(packs(padded));
  EXPECT_FALSE(packs({.m = 64, .n = 48, .k = 32, .transpose_a = true}));
  EXPECT_FALSE(packs({.m = 64, .n = 48, .k = 32, .dtype = bf16, .out_dtype = bf16}));
#if defined(__x86_64__) && __has_include(<oneapi/dnnl/dnnl.h>)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  const bool same_version = device->gemm(spec)->describe().starts_with("oneDNN 2.6.");  // Debian 12's, as its headers
  EXPECT_TRUE(packs(spec) || !avx512 || !same_version);
#endif
}

class BuiltinGemmTest : public GemmTest {
 protected:
  [[nodiscard]] DeviceOptions options() const override { return {.gemm = "builtin"}; }
};

TEST_P(BuiltinGemmTest, IsRightForRandomShapes) { check_random(12, 130); }

TEST_P(BuiltinGemmTest, IsRightAcrossItsBlocks) {
  for (const DType dtype : {f32, f64}) {
    check({.m = 101, .n = 1100, .k = 520, .dtype = dtype, .out_dtype = dtype});
    check(
        {.m = 101, .n = 1100, .k = 520, .transpose_a = true, .transpose_b = true, .dtype = dtype, .out_dtype = dtype});
  }
}

INSTANTIATE_TEST_SUITE_P(Host, BuiltinGemmTest, ::testing::Values(DeviceType::host), type_name);

}  // namespace
}  // namespace tandem::testing

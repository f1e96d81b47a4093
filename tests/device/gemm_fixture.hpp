// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/gemm.hpp"

#include "device/on_device.hpp"
#include "support/oracle.hpp"

namespace tandem::testing {

inline std::string text(const GemmSpec& s) {
  return ::testing::PrintToString(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k) +
         (s.transpose_a ? " T" : " N") + (s.transpose_b ? "T " : "N ") + std::string(name(s.dtype)) + " into " +
         std::string(name(s.out_dtype)) + " alpha " + std::to_string(s.alpha) + " beta " + std::to_string(s.beta) +
         " ld " + std::to_string(s.lda) + "," + std::to_string(s.ldb) + "," + std::to_string(s.ldd) +
         (s.bias ? " bias " : " ") + name(s.activation);
}

/// Compares GEMMs with an fp64 reference, element by element.
class GemmTest : public OnDevice {
 protected:
  // The rows of the runs that a GEMM is split into, in order; empty: a single run.
  using Pieces = std::vector<std::int64_t>;

  template <typename T, typename Out>
  void check_typed(GemmSpec spec, std::optional<std::int64_t> m, std::optional<std::int64_t> k,
                   std::optional<float> run_beta, const Pieces& pieces) {
    const std::int64_t run_m = m.value_or(spec.m);
    const std::int64_t run_k = k.value_or(spec.k);
    SCOPED_TRACE(text(spec) + ", run with m " + std::to_string(run_m) + ", k " + std::to_string(run_k) + ", pieces " +
                 ::testing::PrintToString(pieces));
    const auto pitch = [](std::int64_t given, std::int64_t dense) { return given != 0 ? given : dense; };
    const std::int64_t lda = pitch(spec.lda, spec.transpose_a ? run_m : run_k);
    const std::int64_t ldb = pitch(spec.ldb, spec.transpose_b ? run_k : spec.n);
    const std::int64_t ldd = pitch(spec.ldd, spec.n);
    const auto elements = [](std::int64_t rows, std::int64_t ld) { return static_cast<std::size_t>(rows * ld + 1); };
    const std::vector<T> a = random_values<T>(random(), elements(spec.transpose_a ? spec.k : spec.m, lda));
    const std::vector<T> b = random_values<T>(random(), elements(spec.transpose_b ? spec.n : spec.k, ldb));
    const std::vector<Out> bias = random_values<Out>(random(), static_cast<std::size_t>(spec.n));
    std::vector<Out> d = random_values<Out>(random(), elements(spec.m, ldd));
    const float beta = run_beta.value_or(spec.beta);
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
    // The pieces run with other weights first: packed weights must not be left over in the runs that are checked.
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
    // Gathers the rows of A, or the columns of B, so that each is contiguous.
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
        // A library's epilogue may round the sum before the activation, or use the hardware's tanh: the error may then
        // be relative to the terms, in the output's precision (the slope of GELU is at most 1.13).
        const bool coarse = !on_host() && spec.activation != Activation::none && size_of(spec.out_dtype) == 2;
        // A library may also round the product to the output's dtype before it adds beta · C.
        const double product_rounded = !on_host() && beta != 0.0F ? epsilon(spec.out_dtype) * magnitude : 0.0;
        const double bound = product_rounded + (2 * std::sqrt(static_cast<double>(run_k)) + 10) * unit * magnitude +
                             epsilon(spec.out_dtype) * (std::abs(expected) + (coarse ? 1.25 * magnitude : 0.0)) +
                             (spec.out_dtype == f16 ? 0x1p-24 : 0.0);
        ASSERT_LE(std::abs(to_double(out[where]) - expected), bound)
            << "at " << i << ", " << j << ", expected " << expected;
      }
    }
  }

  void check(const GemmSpec& spec, std::optional<std::int64_t> m = {}, std::optional<std::int64_t> k = {},
             std::optional<float> beta = {}, const Pieces& pieces = {}) {
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
    check(spec, std::reduce(pieces.begin(), pieces.end()), {}, {}, pieces);
  }

  // All transposes and dtypes, with random sizes, epilogues, leading dimensions and run-time extents.
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
        const std::optional<float> betas[] = {std::nullopt, 1.0F, -0.5F};
        check(spec, random_between(0, spec.m), random_between(0, spec.k),
              betas[static_cast<std::size_t>(random_between(0, 2))]);
        if (HasFatalFailure()) return;
      }
    }
  }

  bool apart_ = false;                     // beta multiplies a separate C, not D
  std::vector<GemmAlgorithm> algorithms_;  // for the checked GEMMs; empty: the device chooses
};

}  // namespace tandem::testing

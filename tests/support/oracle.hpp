// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/dtype.hpp"
#include "tandem/device/gemm.hpp"

/// References for results, for the tests and for `tandem verify` and `tandem bench`: random data that any rank can
/// generate for any other, fp64 references, and the bound of docs/architecture.md for every element:
///   |out - ref64| ≤ |unfused - ref64| + √(2K) · ε · (|A|·|B|) + r
/// with the ε of the accumulation (fp32's if the result has 16 bits), and r the cost of rounding each of these once:
/// the result, the partial sums that are sent, an activation's input, and a sum that began with another C before a bias
/// is added to it. For r, a nonzero value counts as no less than the dtype's smallest normal number.
///
/// All matrices here are dense, row-major and in fp64, and hold only values that the dtype in question can represent.
namespace tandem::testing {

/// A key for random data, from a seed and whatever distinguishes one tensor from another (case, rank, operand, …).
[[nodiscard]] std::uint64_t key(std::uint64_t seed, std::initializer_list<std::uint64_t> parts);

/// 64 random bits, which depend only on the key and the index: equal on all ranks and devices.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t index) noexcept {
  std::uint64_t x = key + (index + 1) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Element `index` of a key's random tensor: in [-1, 1), or a whole number in [-100, 100] (u8: [0, 100]).
[[nodiscard]] double random_value(std::uint64_t key, std::int64_t index, DType dtype);
[[nodiscard]] std::vector<double> random_values(std::uint64_t key, std::int64_t count, DType dtype);
[[nodiscard]] std::vector<std::byte> random_bytes(std::uint64_t key, std::size_t bytes);

/// Convert values to memory of `dtype`, rounding to nearest, and back.
void store(std::span<const double> values, DType dtype, void* memory);
[[nodiscard]] std::vector<double> load(const void* memory, std::int64_t count, DType dtype);
/// Transposes [rows, columns] to [columns, rows].
[[nodiscard]] std::vector<double> transposed(std::span<const double> values, std::int64_t rows, std::int64_t columns);

/// Σ x[i] · y[i] over the elements of x, and the sum of the terms' absolute values.
struct Dot {
  double sum = 0;
  double magnitude = 0;
};
[[nodiscard]] Dot dot(std::span<const double> x, std::span<const double> y);

/// The expected result, for each element, and how far the actual one may be off.
struct Expected {
  std::vector<double> value;      ///< in fp64
  std::vector<double> unfused;    ///< as separate fp32 operations compute it, with what is sent rounded
  std::vector<double> magnitude;  ///< |A|·|B|: the sum of all terms' absolute values
  std::vector<double> rounded{};  ///< cost of roundings other than the result's own; empty: none
  std::int64_t terms = 0;         ///< K: the terms of each element's sum; an activation's roundings count as 8
  DType dtype = f32;              ///< the result's
  bool tf32 = false;              ///< A and B may have been rounded to TF32 before they were multiplied
  double summed_within = 0;       ///< error of the sum of the products, relative to |A|·|B|: see float8_error

  /// The largest allowed |out - value[i]|.
  [[nodiscard]] double allowed(std::size_t i) const;

 private:
  [[nodiscard]] double of_tf32(std::size_t i) const;
};

/// The sum of `sources`, in their order: a reduction over ranks.
[[nodiscard]] Expected expected_sum(std::span<const std::vector<double>> sources, DType dtype);

/// The error, relative to |A|·|B|, of a GPU's sum of `terms` products of 8-bit numbers: its tensor cores keep some 14
/// bits, of sums of 128 terms that are added in fp32, or with `fast` (GemmSpec::fast_accum) of the whole sum.
[[nodiscard]] inline double float8_error(std::int64_t terms, bool fast) noexcept {
  return fast ? 0x1p-10
              : 0x1p-12 * std::min(1.0, std::sqrt(128 / static_cast<double>(std::max<std::int64_t>(terms, 1))));
}

/// activation(alpha · A[m, k] · B[k, n] + beta · start[m, n] + bias[n]); with `gradient_at`, the sum times the
/// activation's derivative at those values.
struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::span<const double> a;
  std::span<const double> b;
  std::span<const double> start{};  ///< empty: none
  std::span<const double> bias{};   ///< empty: none
  double alpha = 1;
  double beta = 0;
  Activation activation = Activation::none;
  std::span<const double> gradient_at{};  ///< [m, n]; empty: none
  /// If k is split over ranks: each rank's share of it. The ranks' partial results are rounded to `travels` before they
  /// are added. Empty, or a single share: one GEMM.
  std::vector<std::int64_t> parts{};
  DType travels = f32;
  /// For each row, the part to which beta · start is added before rounding. Empty: it is added to the whole sum.
  std::vector<std::size_t> owners{};
  DType dtype = f32;         ///< the result's
  bool tf32 = false;         ///< A and B may be rounded to TF32
  double summed_within = 0;  ///< error of the sum of products, relative to |A|·|B|: see float8_error
  /// For 16-bit results, as in some of cuBLASLt's kernels: the product may be rounded before beta · start or the bias
  /// is added to it, and that sum before the other one is.
  bool rounds_between = false;
};
[[nodiscard]] Expected expected_product(const Product& product);

/// How a result differs from the expected one.
struct Comparison {
  std::int64_t wrong = 0;
  std::int64_t first = -1;  ///< index of the first wrong element
  double got = 0;
  double wanted = 0;
  double allowed = 0;
};
/// `out` holds expected.value.size() elements of expected.dtype, in host memory.
[[nodiscard]] Comparison compare(const Expected& expected, const void* out);
[[nodiscard]] Comparison compare_bytes(std::span<const std::byte> expected, const void* out);
/// "3 elements wrong, first [17]: got 0.5, wanted 0.25 ± 0.001"
[[nodiscard]] std::string to_string(const Comparison& comparison);

}  // namespace tandem::testing

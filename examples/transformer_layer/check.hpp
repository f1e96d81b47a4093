// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transformer_layer/layer.hpp"

namespace tandem::transformer_layer {

/// A result of a part. Each is a product of two of the part's tensors:
///   y[i, j] = Σ x[i, t] · W[j, t]     dx[i, j] = Σ dy[i, t] · W[t, j]     dw[i, j] = Σ dy[t, i] · x[t, j]
enum class Result : std::uint8_t { y, dx, dw };

/// Elements of results, compared with fp64 sums of the generated tensors.
struct Verdict {
  std::int64_t compared = 0;
  std::int64_t wrong = 0;
  double worst = 0;  ///< the largest error, relative to the allowed one

  void add(const Verdict& other);
};

/// Local, on the host. Compares this rank's block of a result (`out`, a copy of the device's memory) with the expected
/// values: every element if `whole`, else a grid of up to 32 rows and columns that includes the block's corners; the
/// other elements are checked for having been written.
///
/// An element is right if
///   |out - Σ a·b| ≤ √(2K) · ε₃₂ · Σ |a·b| + ε · (|Σ a·b| + Σ over ranks |its partial sum|)
/// K terms are multiplied and added in fp32; the stored result, and each rank's partial sum where those are
/// transferred, is rounded to the result's dtype, whose ε is half the distance from 1 to the next number.
[[nodiscard]] Verdict check(const Part& part, std::size_t number, Result result, std::int64_t tokens, DType dtype,
                            std::uint64_t seed, const std::vector<std::byte>& out, int ranks, int rank, bool whole);

}  // namespace tandem::transformer_layer

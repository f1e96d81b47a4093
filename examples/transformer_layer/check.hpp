// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transformer_layer/layer.hpp"

namespace tandem::transformer_layer {

/// What a part computes. Each is a product of two of the part's tensors:
///   y[i, j] = Σ x[i, t] · W[j, t]     dx[i, j] = Σ dy[i, t] · W[t, j]     dw[i, j] = Σ dy[t, i] · x[t, j]
enum class Result : std::uint8_t { y, dx, dw };

/// Elements of results, compared with fp64 sums of the generated tensors.
struct Verdict {
  std::int64_t compared = 0;
  std::int64_t wrong = 0;
  double worst = 0;  ///< the largest error, relative to what is allowed

  void add(const Verdict& other);
};

/// Local, on the host. Compares this rank's block of a result, `out` as it lies in the device's memory, with what it
/// must be: each element where `whole`, else a grid of up to 32 rows and columns that has the block's corners; of the
/// other elements, that each was written.
///
/// An element is right if
///   |out - Σ a·b| ≤ √(2K) · ε₃₂ · Σ |a·b| + ε · (|Σ a·b| + Σ over ranks |its partial sum|)
/// K terms are multiplied and added in fp32; what is stored, and each rank's partial sum where such travel, is rounded
/// to the result's dtype, whose ε is half the distance from 1 to the next number.
[[nodiscard]] Verdict check(const Part& part, std::size_t number, Result result, std::int64_t tokens, DType dtype,
                            std::uint64_t seed, const std::vector<std::byte>& out, int ranks, int rank, bool whole);

}  // namespace tandem::transformer_layer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::cuda {

/// A product of `rows` by `columns` outputs, as cuBLASLt counts them (by columns), in tiles that a Hopper GPU makes in
/// waves, one on each of so many multiprocessors. `ranked` are the tiles that cuBLASLt offers, the one that it ranks
/// first in front; what is no cublasLtMatmulTile_t, as 0, is not compared. Gives the place of the one to take.
///
/// That is the first, unless it makes tiles of 256 × 128, 128 × 256, 176 × 128, 128 × 160, 320 × 128 or 192 × 192, and
/// by another of these its waves make fewer outputs: docs/performance/products.md has what products of 16-bit operands
/// take by each.
[[nodiscard]] std::size_t best_tile(std::span<const int> ranked, std::int64_t rows, std::int64_t columns,
                                    int multiprocessors);

}  // namespace tandem::cuda

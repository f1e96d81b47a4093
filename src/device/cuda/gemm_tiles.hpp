// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::cuda {

/// Chooses the tile for a GEMM with `rows` by `columns` outputs, in cuBLASLt's column-major view, on a Hopper GPU,
/// which computes tiles in waves, one per multiprocessor. `ranked` are the tiles (cublasLtMatmulTile_t) that cuBLASLt
/// offers, best first; others than those below, such as 0, are not compared. Returns the index of the chosen one.
///
/// That is 0, unless the first tile is 256 × 128, 128 × 256, 176 × 128, 128 × 160, 320 × 128 or 192 × 192 and the waves
/// of another of these compute fewer outputs, weighted by the time that an output takes with each tile: see the times
/// of GEMMs with 16-bit operands in docs/performance/products.md.
[[nodiscard]] std::size_t best_tile(std::span<const int> ranked, std::int64_t rows, std::int64_t columns,
                                    int multiprocessors);

}  // namespace tandem::cuda

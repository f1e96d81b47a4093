// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::cuda {

/// Chooses the tile for a GEMM with `rows` by `columns` outputs, in cuBLASLt's column-major view, that each sum over
/// `inputs` (K), on a Hopper GPU, which computes tiles in waves, one per multiprocessor. `ranked` are the tiles
/// (cublasLtMatmulTile_t) that cuBLASLt offers, best first; others than the twelve in gemm_tiles.cpp, such as 0, are
/// not compared. Returns the index of the chosen one.
///
/// That is 0, unless the first tile is one of those and the waves of another of them take less time, by what each input
/// of an output takes with a tile, and what follows the last one: see the times of GEMMs with 16-bit operands in
/// docs/performance/products.md.
[[nodiscard]] std::size_t best_tile(std::span<const int> ranked, std::int64_t rows, std::int64_t columns,
                                    std::int64_t inputs, int multiprocessors);

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gemm_tiles.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace tandem::cuda {
namespace {

struct Tile {
  int id;  ///< its cublasLtMatmulTile_t
  std::int64_t rows;
  std::int64_t columns;
  double of_the_best;  ///< time per output and input in full waves, relative to the fastest tile's
  double epilogue;     ///< what follows the last input of a wave, as the number of inputs that take as long
};

constexpr std::array<Tile, 12> compared{{
    {.id = 20, .rows = 128, .columns = 128, .of_the_best = 1.04, .epilogue = 0},
    {.id = 23, .rows = 128, .columns = 256, .of_the_best = 1.005, .epilogue = 80},
    {.id = 24, .rows = 256, .columns = 128, .of_the_best = 1, .epilogue = 80},
    {.id = 29, .rows = 128, .columns = 160, .of_the_best = 1.025, .epilogue = 0},
    {.id = 31, .rows = 192, .columns = 128, .of_the_best = 1.035, .epilogue = 80},
    {.id = 32, .rows = 128, .columns = 192, .of_the_best = 1.035, .epilogue = 80},
    {.id = 165, .rows = 112, .columns = 128, .of_the_best = 1.07, .epilogue = 0},
    {.id = 184, .rows = 144, .columns = 128, .of_the_best = 1.02, .epilogue = 0},
    {.id = 197, .rows = 168, .columns = 128, .of_the_best = 1.02, .epilogue = 0},
    {.id = 201, .rows = 176, .columns = 128, .of_the_best = 1.015, .epilogue = 0},
    {.id = 209, .rows = 192, .columns = 192, .of_the_best = 1.02, .epilogue = 80},
    {.id = 248, .rows = 320, .columns = 128, .of_the_best = 1, .epilogue = 130},
}};

constexpr std::int64_t over(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

}  // namespace

std::size_t best_tile(std::span<const int> ranked, std::int64_t rows, std::int64_t columns, std::int64_t inputs,
                      int multiprocessors) {
  const auto cost = [&](int id) {
    const auto tile = std::ranges::find(compared, id, &Tile::id);
    if (tile == compared.end()) return std::numeric_limits<double>::infinity();
    const std::int64_t tiles = over(rows, tile->rows) * over(columns, tile->columns);
    const double each = tile->of_the_best * static_cast<double>(inputs) + tile->epilogue;
    return static_cast<double>(over(tiles, multiprocessors) * tile->rows * tile->columns) * each;
  };
  if (ranked.empty() || cost(ranked.front()) == std::numeric_limits<double>::infinity()) return 0;
  return static_cast<std::size_t>(std::ranges::min_element(ranked, {}, cost) - ranked.begin());
}

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gemm_tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

namespace tandem::cuda {
namespace {

// The cublasLtMatmulTile_t that best_tile compares, rows x columns.
constexpr int t128x128 = 20;
constexpr int t128x256 = 23;
constexpr int t256x128 = 24;
constexpr int t128x160 = 29;
constexpr int t192x128 = 31;
constexpr int t128x192 = 32;
constexpr int t112x128 = 165;
constexpr int t144x128 = 184;
constexpr int t168x128 = 197;
constexpr int t176x128 = 201;
constexpr int t192x192 = 209;
constexpr int t320x128 = 248;
constexpr int t512x64 = 25;  // and two that it does not
constexpr int t448x64 = 272;

// The tiles that cuBLASLt 13.1 offers on an H200, in its order, and the fastest there of those that best_tile compares,
// or one within two percent of it after a rest.
TEST(GemmTiles, AreThoseThatWereFastest) {
  struct Row {
    const char* what;  // and what tiles take, in microseconds
    std::int64_t rows, columns, inputs;
    std::vector<int> ranked;
    int best;
  };
  const Row table[]{
      {"up, forward: 320x128 2382, 256x128 2385, taken 2371",
       14336,
       8192,
       8192,
       {t320x128, t192x192, t256x128, t128x256, t192x128, t128x192, t176x128},
       t176x128},
      {"out, forward: 320x128 360, 256x128 347, taken 333, 168x128 335",
       8192,
       8192,
       2048,
       {t320x128, t256x128, t128x256, t176x128, t168x128},
       t176x128},
      {"qkv, gradient of x: 320x128 452, taken 436", 8192, 8192, 2560, {t320x128, t256x128, t128x256}, t256x128},
      {"up, gradient of x: 320x128 2424, taken 2370",
       8192,
       8192,
       14336,
       {t320x128, t256x128, t128x256, t192x192},
       t256x128},
      {"up, gradient of W: 192x192 2455, taken 2381",
       8192,
       14336,
       8192,
       {t192x192, t128x256, t256x128, t320x128},
       t256x128},
      {"wide: 256x128 1508, taken 1489",
       12288,
       4096,
       12288,
       {t256x128, t128x256, t192x192, t320x128, t192x128, t168x128, t128x192, t176x128},
       t176x128},
      {"down, gradient of x: taken 1193", 7168, 8192, 8192, {t256x128, t128x256, t192x192}, t256x128},
      {"qkv, forward: 320x128 427, taken 425", 2560, 8192, 8192, {t320x128, t256x128, t128x256}, t256x128},
      {"few tokens up: 256x128 169, taken 159, 128x160 162",
       7168,
       1024,
       8192,
       {t256x128, t128x256, t112x128, t448x64, t168x128, t176x128, t192x192, t128x160},
       t112x128},
      {"few tokens down: 256x128 152, taken 152",
       8192,
       1024,
       7168,
       {t256x128, t128x256, t168x128, t176x128, t128x128, t192x192},
       t168x128},
      {"qkv, one shard: taken 110, a wave",
       2560,
       2048,
       8192,
       {t320x128, t128x160, t168x128, t176x128, t112x128, t192x128, t128x192},
       t320x128},
      {"qkv, three shards: taken 316, 128x160 321",
       2560,
       6144,
       8192,
       {t320x128, t128x192, t256x128, t128x256, t128x160, t168x128, t144x128},
       t320x128},
      {"up, one shard: 256x128 593, taken 586",
       14336,
       2048,
       8192,
       {t256x128, t128x256, t320x128, t168x128, t192x192, t128x128, t176x128},
       t176x128},
      {"up, three shards: 192x192 1790, taken 1753",
       14336,
       6144,
       8192,
       {t192x192, t320x128, t256x128, t128x256, t192x128, t128x192, t168x128, t176x128},
       t176x128},
      {"down, one shard: 256x128 303, 128x256 295, taken 296, 144x128, which ties with it, 297",
       8192,
       2048,
       7168,
       {t256x128, t128x256, t168x128, t144x128, t176x128, t192x192, t128x128, t112x128},
       t168x128},
      {"out, one shard: 256x128 96.1, taken 90.0, 144x128, which ties with it, 89.5",
       8192,
       2048,
       2048,
       {t256x128, t128x256, t168x128, t144x128, t176x128, t192x192, t128x128, t112x128},
       t168x128},
      {"out, two shards: 256x128 178, taken 172, and so does 144x128",
       8192,
       4096,
       2048,
       {t256x128, t128x256, t168x128, t144x128, t192x128, t128x192, t320x128, t128x160},
       t168x128},
      {"out, three shards: 256x128 263, taken 253",
       8192,
       6144,
       2048,
       {t256x128, t192x192, t128x256, t320x128, t192x128, t128x192, t168x128, t128x160},
       t168x128},
      {"qkv, gradient of x, one shard: taken 116, 128x256 114",
       8192,
       2048,
       2560,
       {t256x128, t128x256, t192x192, t128x128, t512x64, t192x128, t128x160},
       t256x128},
      {"wide, one shard: taken 381, 128x256 378",
       12288,
       1024,
       12288,
       {t256x128, t128x256, t192x128, t128x128, t192x192, t168x128, t112x128},
       t256x128},
      {"few tokens up, one shard: taken 47.5, 128x128 51.2",
       7168,
       256,
       8192,
       {t112x128, t128x128, t144x128, t448x64, t168x128},
       t112x128},
      {"few tokens up, two shards: taken 82.5, 256x128 87",
       7168,
       512,
       8192,
       {t112x128, t256x128, t128x256, t448x64, t128x128, t192x192},
       t112x128},
      {"few tokens up, three shards: taken 118, 176x128 121",
       7168,
       768,
       8192,
       {t168x128, t176x128, t112x128, t128x192, t192x128, t128x128},
       t168x128},
      {"few tokens down, one shard: taken 48, 144x128 49.5",
       8192,
       256,
       7168,
       {t128x128, t144x128, t168x128, t176x128, t256x128},
       t128x128},
  };
  for (const Row& row : table) {
    EXPECT_EQ(row.ranked[best_tile(row.ranked, row.rows, row.columns, row.inputs, 132)], row.best) << row.what;
  }
}

// One wave of each tile, and no less of any other.
TEST(GemmTiles, EachIsTakenWhereItFits) {
  struct Tile {
    int id;
    std::int64_t rows;
    std::int64_t columns;
  };
  constexpr Tile tiles[]{{t128x128, 128, 128}, {t128x256, 128, 256}, {t256x128, 256, 128}, {t128x160, 128, 160},
                         {t192x128, 192, 128}, {t128x192, 128, 192}, {t112x128, 112, 128}, {t144x128, 144, 128},
                         {t168x128, 168, 128}, {t176x128, 176, 128}, {t192x192, 192, 192}, {t320x128, 320, 128}};
  for (const Tile& tile : tiles) {
    for (const Tile& other : tiles) {
      if (other.id == tile.id) continue;
      EXPECT_EQ(best_tile(std::vector{other.id, tile.id}, tile.rows, 132 * tile.columns, 8192, 132), 1U)
          << tile.rows << " x " << tile.columns << " after " << other.rows << " x " << other.columns;
    }
  }
}

TEST(GemmTiles, WhatTheLibraryRanksFirstIsTakenWhereNothingIsKnown) {
  EXPECT_EQ(best_tile({}, 8192, 8192, 8192, 132), 0U);
  EXPECT_EQ(best_tile(std::vector{t512x64, t256x128}, 8192, 8192, 8192, 132), 0U);
  EXPECT_EQ(best_tile(std::vector{0, t256x128, t320x128}, 8192, 8192, 8192, 132), 0U);
  EXPECT_EQ(best_tile(std::vector{t256x128, t256x128}, 8192, 8192, 8192, 132), 0U);
}

TEST(GemmTiles, FewerMultiprocessorsMakeOtherWaves) {
  const std::vector<int> ranked{t320x128, t256x128};
  EXPECT_EQ(best_tile(ranked, 2560, 6144, 8192, 132), 0U);  // 384 tiles in three waves, 480 in four
  EXPECT_EQ(best_tile(ranked, 2560, 6144, 8192, 120), 1U);  // four waves each, the latter of smaller tiles
}

}  // namespace
}  // namespace tandem::cuda

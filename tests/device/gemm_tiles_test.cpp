// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gemm_tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

namespace tandem::cuda {
namespace {

constexpr int small = 20;         // 128 x 128
constexpr int tall = 23;          // 128 x 256
constexpr int wide = 24;          // 256 x 128
constexpr int low = 29;           // 128 x 160
constexpr int two_thirds = 31;    // 192 x 128
constexpr int upright = 32;       // 128 x 192
constexpr int smallest = 165;     // 112 x 128
constexpr int slight = 184;       // 144 x 128
constexpr int slim = 197;         // 168 x 128
constexpr int narrow = 201;       // 176 x 128
constexpr int square = 209;       // 192 x 192
constexpr int large = 248;        // 320 x 128
constexpr int others[]{25, 272};  // 512 x 64 and 448 x 64, which best_tile does not compare

// The tiles that cuBLASLt 13.1 offers on an H200, in its order, and the fastest there of those that best_tile compares,
// or one within two percent of it.
TEST(GemmTiles, AreThoseThatWereFastest) {
  struct Row {
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t inputs;
    std::vector<int> ranked;
    int best;
  };
  const Row table[]{
      // Whole GEMMs.
      {14336, 8192, 8192, {large, square, wide, tall, two_thirds, upright, narrow}, narrow},  // 2382, 2385 and 2371 us
      {8192, 8192, 2048, {large, wide, tall, narrow, slim}, narrow},                          // 360, 347, 333, 335
      {8192, 8192, 2560, {large, wide, tall}, wide},                                          // 452 and 436
      {8192, 8192, 14336, {large, wide, tall, square}, wide},                                 // 2424 and 2370
      {8192, 14336, 8192, {square, tall, wide, large}, wide},                                 // 2455 and 2381
      {12288, 4096, 12288, {wide, tall, square, large, two_thirds, slim, upright, narrow}, narrow},  // 1508 and 1489
      {7168, 8192, 8192, {wide, tall, square}, wide},                                                // 1193
      {2560, 8192, 8192, {large, wide, tall}, wide},                                                 // 427 and 425
      {7168, 1024, 8192, {wide, tall, smallest, others[1], slim, narrow, square, low}, smallest},    // 169, 159, 162
      {8192, 1024, 7168, {wide, tall, slim, narrow, small, square}, slim},                           // 152 and 152
      // Of one shard, two and three.
      {2560, 2048, 8192, {large, low, slim, narrow, smallest, two_thirds, upright}, large},         // 110; one wave
      {2560, 6144, 8192, {large, upright, wide, tall, low, slim, slight}, large},                   // 316, then 321
      {14336, 2048, 8192, {wide, tall, large, slim, square, small, narrow}, narrow},                // 593 and 586
      {14336, 6144, 8192, {square, large, wide, tall, two_thirds, upright, slim, narrow}, narrow},  // 1790 and 1753
      {8192, 2048, 7168, {wide, tall, slim, slight, narrow, square, small, smallest}, slim},        // 303, 295 and 296
      {8192, 2048, 2048, {wide, tall, slim, slight, narrow, square, small, smallest}, slim},        // 96.1, 90.0, 89.5
      {8192, 4096, 2048, {wide, tall, slim, slight, two_thirds, upright, large, low}, slim},        // 178 and 172
      {8192, 6144, 2048, {wide, square, tall, large, two_thirds, upright, slim, low}, slim},        // 263 and 253
      {8192, 2048, 2560, {wide, tall, square, small, others[0], two_thirds, low}, wide},            // 116, 114
      {12288, 1024, 12288, {wide, tall, two_thirds, small, square, slim, smallest}, wide},          // 381, 378
      {7168, 256, 8192, {smallest, small, slight, others[1], slim}, smallest},                      // 47.5, then 51.2
      {7168, 512, 8192, {smallest, wide, tall, others[1], small, square}, smallest},                // 82.5, then 87
      {7168, 768, 8192, {slim, narrow, smallest, upright, two_thirds, small}, slim},                // 118, then 121
      {8192, 256, 7168, {small, slight, slim, narrow, wide}, small},                                // 48, then 49.5
  };
  for (const Row& row : table) {
    EXPECT_EQ(row.ranked[best_tile(row.ranked, row.rows, row.columns, row.inputs, 132)], row.best)
        << row.rows << " x " << row.columns << " x " << row.inputs;
  }
}

TEST(GemmTiles, WhatTheLibraryRanksFirstIsTakenWhereNothingIsKnown) {
  EXPECT_EQ(best_tile({}, 8192, 8192, 8192, 132), 0U);
  EXPECT_EQ(best_tile(std::vector{others[0], wide}, 8192, 8192, 8192, 132), 0U);
  EXPECT_EQ(best_tile(std::vector{0, wide, large}, 8192, 8192, 8192, 132), 0U);
  EXPECT_EQ(best_tile(std::vector{wide, wide}, 8192, 8192, 8192, 132), 0U);
}

TEST(GemmTiles, FewerMultiprocessorsMakeOtherWaves) {
  const std::vector<int> ranked{large, wide};
  EXPECT_EQ(best_tile(ranked, 2560, 6144, 8192, 132), 0U);  // 384 tiles in three waves, 480 in four
  EXPECT_EQ(best_tile(ranked, 2560, 6144, 8192, 120), 1U);  // four waves each, the latter of smaller tiles
}

}  // namespace
}  // namespace tandem::cuda

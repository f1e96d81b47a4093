// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gemm_tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

namespace tandem::cuda {
namespace {

constexpr int wide = 24;         // 256 x 128
constexpr int tall = 23;         // 128 x 256
constexpr int narrow = 201;      // 176 x 128
constexpr int low = 29;          // 128 x 160
constexpr int large = 248;       // 320 x 128
constexpr int square = 209;      // 192 x 192
constexpr int others[]{31, 32};  // tiles that best_tile does not compare

// The tiles that cuBLASLt 13.1 offers on an H200, in its order, and the fastest there of those that best_tile compares,
// or one within one percent of it.
TEST(GemmTiles, AreThoseThatWereFastest) {
  struct Row {
    std::int64_t rows;
    std::int64_t columns;
    std::vector<int> ranked;
    int best;
  };
  const Row table[]{
      {14336, 8192, {large, square, wide, tall, others[0], others[1], narrow}, narrow},  // 2382, 2385 and 2371 us
      {8192, 8192, {large, wide, tall, narrow}, narrow},                                 // K 2048: 363, 353 and 335
      {8192, 8192, {large, wide, tall, square}, wide},                                   // K 14336: 2424 and 2370
      {8192, 14336, {square, tall, wide, large}, wide},                                  // 2455 and 2381
      {12288, 4096, {wide, tall, square, large, narrow}, narrow},                        // 1527 and 1514
      {7168, 8192, {wide, tall, square}, wide},                                          // 1193
      {14336, 6144, {square, wide, large, tall, narrow}, narrow},                        // 1815, 1786 and 1778
      {8192, 2048, {wide, tall, narrow, square}, wide},                                  // 302, 299, 309
      {2560, 8192, {large, wide, tall}, wide},                                           // 427 and 425
      {2560,
       6144,
       {large, others[1], wide, tall},
       large},  // 320 and 335: three waves of the larger, four of the smaller
      {2560, 2048, {large, others[0], others[1]}, large},  // one wave
      {7168, 1024, {wide, tall, others[0], low}, low},     // 170 and 163
      {12288, 1024, {wide, tall, square}, wide},
      {8192, 1024, {wide, tall, narrow}, wide},
  };
  for (const Row& row : table) {
    EXPECT_EQ(row.ranked[best_tile(row.ranked, row.rows, row.columns, 132)], row.best)
        << row.rows << " x " << row.columns;
  }
}

TEST(GemmTiles, WhatTheLibraryRanksFirstIsTakenWhereNothingIsKnown) {
  EXPECT_EQ(best_tile({}, 8192, 8192, 132), 0U);
  EXPECT_EQ(best_tile(std::vector{others[0], wide}, 8192, 8192, 132), 0U);
  EXPECT_EQ(best_tile(std::vector{0, wide, large}, 8192, 8192, 132), 0U);
  EXPECT_EQ(best_tile(std::vector{wide, wide}, 8192, 8192, 132), 0U);
}

TEST(GemmTiles, FewerMultiprocessorsMakeOtherWaves) {
  const std::vector<int> ranked{large, wide};
  EXPECT_EQ(best_tile(ranked, 2560, 6144, 132), 0U);  // 384 tiles in three waves, 480 in four
  EXPECT_EQ(best_tile(ranked, 2560, 6144, 120), 1U);  // four waves each, the latter of smaller tiles
}

}  // namespace
}  // namespace tandem::cuda

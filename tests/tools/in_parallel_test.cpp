// SPDX-License-Identifier: Apache-2.0
#include "tools/in_parallel.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace tandem::tools {
namespace {

TEST(InParallel, EveryIndexOnce) {
  for (const std::int64_t count : {0, 1, 2, 63, 64, 1000}) {
    for (const std::int64_t least : {0, 1, 10, 5000}) {
      std::vector<int> times(static_cast<std::size_t>(count));
      in_parallel(count, least, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
      });
      EXPECT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; })) << count << " by " << least;
    }
  }
}

TEST(InParallel, NoRangeIsShorterThanIsWorthAThread) {
  std::mutex mutex;
  std::vector<std::int64_t> lengths;
  in_parallel(1000, 400, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    lengths.push_back(end - begin);
  });
  EXPECT_LE(lengths.size(), 2U);
  for (const std::int64_t length : lengths) EXPECT_GE(length, 400);
}

TEST(InParallel, ManyRanksLeaveOneThreadEach) {
  int ranges = 0;
  in_parallel(1000, 1, 100'000, [&](std::int64_t begin, std::int64_t end) {
    ++ranges;
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 1000);
  });
  EXPECT_EQ(ranges, 1);
}

TEST(InParallel, WhatABodyThrowsComesOut) {
  for (const std::int64_t thrower : {0, 999}) {  // in the first range, which this thread runs, and in the last one
    EXPECT_THROW(in_parallel(1000, 1, 1,
                             [&](std::int64_t begin, std::int64_t end) {
                               if (begin <= thrower && thrower < end) throw std::runtime_error("no");
                             }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace tandem::tools

// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_crew.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <gtest/gtest.h>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

TEST(HostCrew, DoesEachPartOnceWhateverItsSize) {
  for (const int size : {1, 2, 3, 5, 8}) {
    HostCrew crew(size);
    EXPECT_EQ(crew.size(), size);
    for (const int parts : {0, 1, 2, 7, 64}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<int> done(static_cast<std::size_t>(parts), 0);
        crew.run(parts, [&](int part, int member) {
          EXPECT_GE(member, 0);
          EXPECT_LT(member, size);
          ++done[static_cast<std::size_t>(part)];
        });
        ASSERT_EQ(std::ranges::count(done, 1), parts) << "size " << size << ", repeat " << repeat;
      }
    }
  }
}

TEST(HostCrew, MembersHelpAndEachDoesOnePartAtATime) {
  constexpr int size = 4;
  HostCrew crew(size);
  std::array<std::atomic<int>, size> busy{};
  std::mutex mutex;
  std::set<std::thread::id> threads;
  // Each part waits (for up to 30 s) until every member has one, so no member can do two of them.
  std::atomic<int> arrived = 0;
  crew.run(size, [&](int /*part*/, int member) {
    EXPECT_EQ(busy[static_cast<std::size_t>(member)].fetch_add(1), 0);
    {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    }
    ++arrived;
    for (const auto end = std::chrono::steady_clock::now() + 30s; arrived < size;) {
      if (std::chrono::steady_clock::now() > end) break;
      std::this_thread::yield();
    }
    busy[static_cast<std::size_t>(member)].fetch_sub(1);
  });
  EXPECT_EQ(arrived, size);
  EXPECT_EQ(threads.size(), static_cast<std::size_t>(size));
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST(HostCrew, WorksForSeveralCallersAtOnce) {
  HostCrew crew(3);
  const auto call = [&crew] {
    for (int repeat = 0; repeat < 300; ++repeat) {
      std::array<int, 5> done{};
      crew.run(5, [&](int part, int /*member*/) { ++done[static_cast<std::size_t>(part)]; });
      if (std::ranges::count(done, 1) != 5) return false;
    }
    return true;
  };
  std::array<bool, 4> right{};
  std::vector<std::thread> callers;
  callers.reserve(right.size());
  for (bool& each : right) callers.emplace_back([&each, &call] { each = call(); });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(std::ranges::count(right, true), 4);
}

TEST(HostCrew, SaysWhatAPartThrewWhenAllAreDone) {
  HostCrew crew(3);
  std::atomic<int> done = 0;
  const auto failing = [&](int part, int /*member*/) {
    ++done;
    if (part == 3) throw std::runtime_error("part 3");
  };
  try {
    crew.run(9, failing);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), std::string("part 3"));
  }
  EXPECT_EQ(done, 9);
  crew.run(2, [&](int part, int /*member*/) { done = part; });  // the crew is still usable
}

}  // namespace
}  // namespace tandem::testing

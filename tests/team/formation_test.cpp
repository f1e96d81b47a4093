// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <gtest/gtest.h>
#include <initializer_list>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/team/team.hpp"

#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::run_ranks;

/// Rank 1 of three has no descriptor left to make a team with. It stays until the others have been told, or leaves.
void expect_to_hear_why(bool stays) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ranks are threads here, and what one lowers all later tests would have";
#elif defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan opens a pipe to see whether an object can be read, and finds no descriptor left for that";
#endif
  run_ranks(3, [stays](World& world) {
    const Team apart = world.team({2, 1, 0});
    const Team pair = world.team({0, 2});
    world.team().barrier();
    const auto make = [&] { static_cast<void>(world.team({0, 1, 2})); };
    if (world.rank() == 1) {
      const rlimit none{3, 3};
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
      EXPECT_THROW(make(), OutOfMemory);
    } else {
      const auto begin = std::chrono::steady_clock::now();
      try {
        make();
        ADD_FAILURE() << "a team was made without rank 1";
      } catch (const Aborted& error) {
        expect_says(error.what(), {"told by rank 1 ", "could not make team", "Too many open files"});
      } catch (const PeerLost& error) {  // the end of its world may be noticed before all have agreed on the team
        EXPECT_FALSE(stays) << error.what();
        EXPECT_EQ(error.rank(), 1) << error.what();
      }
      EXPECT_LT(std::chrono::steady_clock::now() - begin, world.team().timeout() / 2);
      EXPECT_FALSE(world.team().failed());
      pair.barrier();  // else one may leave first, and the other one would report that instead
    }
    if (stays) apart.barrier();
  });
}

TEST(Formation, ARankThatCannotMakeATeamTellsTheOthersWhy) { expect_to_hear_why(true); }

TEST(Formation, ARankThatCannotMakeATeamAndLeavesCostsNoDeadline) {
  for (int round = 0; round < 5; ++round) expect_to_hear_why(false);
}

// Each rank continues as soon as it has been told of the mismatch, so they make the next attempt at different times.
TEST(Formation, AfterAMismatchTheNextAttemptNeedsNoBarrier) {
  run_ranks(3, [](World& world) {
    world.team().set_timeout(std::chrono::seconds(10));
    for (int round = 0; round < 3; ++round) {
      const std::vector<int> listed = world.rank() == 1 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2};
      expect_says(error_of<InvalidArgument>([&] { static_cast<void>(world.team(listed)); }), {"[0, 1]", "[0, 1, 2]"});
      world.team({0, 1, 2}).barrier();
    }
  });
  run_ranks(2, [](World& world) {
    world.team().set_timeout(std::chrono::seconds(10));
    for (int round = 0; round < 3; ++round) {
      const std::vector<int> listed{world.rank(), 1 - world.rank()};
      expect_says(error_of<InvalidArgument>([&] { static_cast<void>(world.team(listed)); }), {"[0, 1]", "[1, 0]"});
      world.team({1, 0}).barrier();
    }
  });
}

// Rank 0 times out before rank 2 sends its list, the last one that rank 1 waits for: so rank 1 has agreed with all, and
// nobody with rank 1. Rank 1's list must not be taken for that of a later attempt, however late that one arrives.
TEST(Formation, AListOfATeamThatCameToNothingCountsForNoOther) {
  using std::chrono::milliseconds;
  constexpr milliseconds timeout(1000);
  const auto body = [&](World& world) {
    const Team apart = world.team({2, 0, 1});
    apart.set_timeout(std::chrono::seconds(20));
    const auto make_after = [&](milliseconds delay, std::initializer_list<int> members) {
      apart.barrier();
      std::this_thread::sleep_for(delay);
      return world.team(members);
    };
    constexpr std::array delays{milliseconds(0), timeout / 2, timeout + timeout / 4};
    EXPECT_THROW(static_cast<void>(make_after(delays.at(static_cast<std::size_t>(world.rank())), {0, 1, 2})), Error);
    apart.barrier();
    world.team().set_timeout(std::chrono::seconds(20));
    make_after(world.rank() == 1 ? timeout : milliseconds(0), {0, 1, 2}).barrier();
    make_after(world.rank() == 1 ? timeout : milliseconds(0), {2, 1, 0}).barrier();
    apart.barrier();
  };
  testing::RankOptions options;
  options.env.timeout = timeout;
  run_ranks(3, body, options);
}

}  // namespace
}  // namespace tandem

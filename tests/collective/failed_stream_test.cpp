// SPDX-License-Identifier: Apache-2.0
// On the host: what follows work that threw on its stream never reaches a peer as a result.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/event.hpp"

#include "collective/support.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace tandem::testing {
namespace {

using Body = std::function<void(const Team& team, StreamRef stream, const std::function<void(StreamRef)>& fill)>;

/// Rank 1's `fill` throws. All ranks get an error long before their deadlines, and none accepts what depends on `fill`
/// as a result.
void expect_told(const std::string& name, const Body& body) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a stream continues after a wait that failed, into memory that peers may be reading";
#endif
  SCOPED_TRACE(name);
  RankOptions options;
  options.env.timeout = std::chrono::seconds(20);
  run_ranks(
      3,
      [&body](World& world) {
        const Team team = world.team({0, 1, 2});
        const Stream stream(team.device());
        world.team().barrier();
        const auto begin = std::chrono::steady_clock::now();
        const auto run = [&] {
          body(team, stream, [&](StreamRef where) {
            if (team.rank() == 1) team.device().launch(where, [] { throw std::runtime_error("no input"); });
          });
        };
        if (team.rank() == 1) {
          run();
          // Not before the team has failed: rank 1's synchronization must not be what tells the peers.
          const auto told = std::chrono::steady_clock::now() + team.timeout() / 2;
          while (!team.failed() && std::chrono::steady_clock::now() < told) {
          }
          expect_error<std::runtime_error>([&] { team.synchronize(stream); }, {"no input"});
        } else {
          expect_error<Aborted>(
              [&] {
                run();
                team.synchronize(stream);
              },
              {"rank 1 ", "had queued"});
        }
        EXPECT_LT(std::chrono::steady_clock::now() - begin, team.timeout() / 2);
        EXPECT_TRUE(team.failed());
        world.team().barrier();
      },
      options);
}

TEST(FailedStream, ReachesNoPeerAsAResult) {
  for (const std::int64_t count : {1, 100, 100'000}) {
    for (const char* algorithm : {"auto", "one_shot", "two_shot"}) {
      expect_told("all_reduce by " + std::string(algorithm) + " of " + std::to_string(count),
                  [&](const Team& team, StreamRef stream, const auto& fill) {
                    const SymmetricTensor tensor = symmetric(team, {count}, f32);
                    AllReduce plan(team, {.count = count, .dtype = f32}, {.algorithm = algorithm});
                    fill(stream);
                    plan(tensor, stream);
                  });
    }
    expect_told("all_gather of " + std::to_string(count), [&](const Team& team, StreamRef stream, const auto& fill) {
      const SymmetricTensor tensor = symmetric(team, {3 * count}, f32);
      AllGather plan(team, {.count = count, .dtype = f32});
      fill(stream);
      plan(tensor, stream);
    });
  }
}

TEST(FailedStream, IsNotPassedByAnEvent) {
  expect_told("all_reduce behind an event", [](const Team& team, StreamRef stream, const auto& fill) {
    const SymmetricTensor tensor = symmetric(team, {1000}, f32);
    AllReduce plan(team, {.count = 1000, .dtype = f32});
    const Stream filling(team.device());
    fill(filling);
    Event filled(team.device());
    filled.record(filling);
    if (team.rank() != 1) filling.synchronize();
    filled.wait(stream);
    plan(tensor, stream);
  });
}

TEST(FailedStream, IsNotPassedByAnEventAfterItsReport) {
  expect_told("all_reduce behind an event", [](const Team& team, StreamRef stream, const auto& fill) {
    const SymmetricTensor tensor = symmetric(team, {1000}, f32);
    AllReduce plan(team, {.count = 1000, .dtype = f32});
    const Stream filling(team.device());
    const auto reported = std::make_shared<std::atomic<bool>>(false);
    team.device().launch(stream, [reported] {
      while (!*reported) std::this_thread::yield();
    });
    // Also where rank 1's failure has come so soon that the plan throws.
    const std::shared_ptr<void> at_the_end(nullptr, [reported](void*) { *reported = true; });
    fill(filling);
    Event filled(team.device());
    filled.record(filling);
    filled.wait(stream);
    plan(tensor, stream);
    if (team.rank() == 1) {
      EXPECT_THROW(filling.synchronize(), std::runtime_error);
    } else {
      filling.synchronize();
    }
  });
}

TEST(FailedStream, WhatAFunctionThrewAbortsTheTeamWhateverItIs) {
  const std::vector<std::pair<const char*, std::function<void()>>> kinds{
      {"std::runtime_error", [] { throw std::runtime_error("no data"); }},
      {"InvalidArgument", [] { throw InvalidArgument("no data"); }},
      {"no exception", [] { throw 7; }},
  };
  for (const auto& [name, function] : kinds) {
    SCOPED_TRACE(name);
    run_ranks(2, [function = function](World& world) {
      const Team team = world.team({0, 1});
      const Stream stream(team.device());
      world.team().barrier();
      if (team.rank() == 0) {
        team.device().launch(stream, function);
        EXPECT_ANY_THROW(team.synchronize(stream));
      } else {
        expect_error<Aborted>(
            [&] {
              while (true) team.barrier();
            },
            {"rank 0 ", "had queued"});
      }
      EXPECT_TRUE(team.failed());
      world.team().barrier();
    });
  }
}

}  // namespace
}  // namespace tandem::testing

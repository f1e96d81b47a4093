// SPDX-License-Identifier: Apache-2.0
// Several teams of the same ranks: a wait of one team delays no rank that creates or destroys another team's plans.
#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <unistd.h>

#include "tandem/collective/all_reduce.hpp"

#include "collective/support.hpp"
#include "support/devices.hpp"
#include "support/shared.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t few_elements = 1000;

/// A plan on a team of its own, with the tensor that it sums.
struct Sum {
  explicit Sum(World& world)
      : team(world.team({0, 1})),
        plan(make(team)),
        tensor(symmetric(team, {few_elements}, i32)),
        stream(world.device()) {}

  static AllReduce make(const Team& team) { return {team, {.count = few_elements, .dtype = i32}}; }

  void start() {
    const std::vector<std::int32_t> mine(few_elements, team.rank() + 1);
    set(tensor, std::as_bytes(std::span(mine)));
    plan(tensor, stream);
  }
  void finish() {
    team.synchronize(stream);
    const std::vector<std::int32_t> sums(few_elements, 3);
    const auto bytes = std::as_bytes(std::span(sums));
    expect_bytes(get(tensor), {bytes.begin(), bytes.end()}, "a sum");
  }

  Team team;
  AllReduce plan;
  SymmetricTensor tensor;
  Stream stream;
};

/// Set by one rank for the other to see.
using Flag = Shared<std::atomic<bool>>;

class TwoTeams : public OnEachDevice {
 protected:
  static void wait_for(const Flag& flag) {
    const auto end = Clock::now() + 20s;  // rather than hang: a hanging test does not say why
    while (!*flag && Clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(*flag);
  }
};

TEST_P(TwoTeams, OneIsLetGoWhileTheOtherWaits) {
  const Flag gone;
  on(2, [&gone](World& world) {
    Sum waits(world);
    std::optional<Sum> goes(world);
    goes->start();
    goes->finish();
    world.team().barrier();
    if (world.rank() == 1) wait_for(gone);
    waits.start();
    goes.reset();
    if (world.rank() == 0) {
      EXPECT_FALSE(waits.stream.query()) << "nothing was waited for";
      *gone = true;
    }
    waits.finish();
  });
}

TEST_P(TwoTeams, ATeamIsLetGoWhileItWaitsItself) {
  const Flag waits;
  on(2, [&waits](World& world) {
    std::optional<Sum> goes(world);
    const Stream stream(world.device());
    world.team().barrier();
    if (world.rank() == 1) wait_for(waits);
    goes->plan(goes->tensor, stream);
    goes.reset();
    if (world.rank() == 0) {
      EXPECT_FALSE(stream.query()) << "nothing was waited for";
      *waits = true;
    }
    stream.synchronize();  // the run must not have used memory that was freed
    world.team().check();
    world.team().barrier();
  });
}

// The order of calls is free across teams, so neither rank may wait for its stream before it creates the plan.
TEST_P(TwoTeams, APlanOfOneIsMadeBeforeOrAfterARunOfTheOther) {
  on(2, [](World& world) {
    Sum first(world);
    Sum second(world);
    for (const Team& team : {first.team, second.team}) team.set_timeout(5s);
    {
      const AllReduce left_to_reclaim = Sum::make(second.team);
    }
    if (world.rank() == 0) first.start();
    second.plan = Sum::make(second.team);
    if (world.rank() == 1) first.start();
    second.start();
    first.finish();
    second.finish();
  });
}

TEST_P(TwoTeams, AWaitOfATeamThatWasLetGoEndsWhenItsPeerIsLost) {
  if (const std::string reason = why_no_rank_may_die(); !reason.empty()) GTEST_SKIP() << reason;
  const Flag waits;
  on(2,
     [&waits](World& world) {
       std::optional<Sum> goes(world);
       world.team().barrier();
       if (world.rank() == 1) {
         wait_for(waits);
         ::kill(::getpid(), SIGKILL);
       }
       const Stream stream(world.device());
       goes->plan(goes->tensor, stream);
       goes.reset();
       EXPECT_FALSE(stream.query()) << "nothing was waited for";
       *waits = true;
       const auto before = Clock::now();
       stream.synchronize();
       EXPECT_LT(Clock::now() - before, 2s);
     },
     {.may_die = {1}});
}

TANDEM_ON_EACH_DEVICE(TwoTeams);

}  // namespace
}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
// Ranks that die: what the survivors hear, how fast, and what they can do then.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <span>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/team/world.hpp"

#include "fault/leftovers.hpp"
#include "fault/operations.hpp"
#include "support/devices.hpp"
#include "support/processes.hpp"
#include "support/ranks.hpp"
#include "support/shared.hpp"
#include "support/socket_names.hpp"

namespace tandem::fault {
namespace {

using namespace std::chrono_literals;
using testing::run_ranks;
using testing::Shared;
using testing::socket_prefix;

std::int64_t now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();  // one clock for all processes
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

/// What the ranks of one job and the test know together.
struct Scene {
  std::atomic<std::int64_t> killed_us;
  std::atomic<pid_t> victim;
  std::atomic<std::uint64_t> job_hash;
  std::atomic<bool> over;
  std::array<std::atomic<std::int64_t>, 8> heard_us;
};

class Kill : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = testing::why_no_rank_may_die(); !reason.empty()) GTEST_SKIP() << reason;
  }

  /// As each rank, before anything happens.
  static void enter(const World& world, int victim, Scene& scene) {
    if (world.rank() != victim) return;
    const std::uint64_t hash = testing::hash_of_job(world.launch().job);
    EXPECT_FALSE(sockets_named(socket_prefix(hash)).empty()) << "while it lives, a job has sockets";
    scene.job_hash = hash;
    scene.victim = ::getpid();
  }

  static void die(Scene& scene) {
    scene.killed_us = now_us();
    ::kill(::getpid(), SIGKILL);
  }

  /// Runs `work` again and again until it throws, which must be the victim's loss.
  template <typename Work>
  static void expect_loss(const World& world, int victim, Scene& scene, const Team& team, Work&& work) {
    try {
      while (true) work();
    } catch (const PeerLost& error) {
      scene.heard_us[static_cast<std::size_t>(world.rank())] = now_us();
      EXPECT_EQ(error.rank(), victim) << error.what();
      EXPECT_EQ(error.pid(), scene.victim) << error.what();
      EXPECT_EQ(error.host(), team.peer(team.rank()).host);
      for (const std::string& part : {"rank " + std::to_string(victim), std::to_string(scene.victim), error.host()}) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << world.rank() << " was told something else: " << error.what();
    }
    // Making a sub-team may hear of it a moment before its parent does.
    for (int i = 0; i < 100 && !team.failed(); ++i) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(team.failed());
    EXPECT_THROW(team.check(), PeerLost);
    EXPECT_THROW(team.barrier(), PeerLost);
  }

  /// Notes how long the survivors took, and looks for what the job may have left.
  void leave(int ranks, int victim, const Scene& scene) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t heard = scene.heard_us[static_cast<std::size_t>(rank)];
      if (rank != victim && heard != 0) {
        milliseconds_.push_back(static_cast<double>(heard - scene.killed_us) / 1e3);
      }
    }
    EXPECT_EQ(sockets_named(socket_prefix(scene.job_hash)), std::vector<std::string>());
    EXPECT_NE(::kill(scene.victim, 0), 0);
  }

  void expect_fast() {
    ASSERT_FALSE(milliseconds_.empty());
    std::sort(milliseconds_.begin(), milliseconds_.end());
    const double median = milliseconds_[milliseconds_.size() / 2];
    const double p90 = milliseconds_[(milliseconds_.size() * 9 - 1) / 10];
    const double most = milliseconds_.back();
    std::printf("[ survivors] %zu heard of a loss after %.1f ms (median), %.1f ms (p90), %.1f ms (most)\n",
                milliseconds_.size(), median, p90, most);
    EXPECT_LT(median, 100.0);
    EXPECT_LT(p90, 500.0) << "one survivor in ten is told late: some wait does not look at its peers' fate";
    EXPECT_LT(most, 5000.0) << "a survivor was told by a deadline, or by chance, and not by the loss";
  }

 private:
  std::vector<double> milliseconds_;
};

std::vector<int> all_but(int ranks, int victim) {
  std::vector<int> rest;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != victim) rest.push_back(rank);
  }
  return rest;
}

/// The sum over a team of a value that each rank has, by a plan of its own.
void expect_sums(const World& world, const Team& team) {
  constexpr std::int64_t count = 1000;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(world.rank() + 1) + static_cast<float>(i);
  }
  Buffer buffer(world.shared_device(), count * sizeof(float));
  world.device().upload(buffer.data(), values.data(), buffer.bytes());
  const TensorView view(buffer.data(), {count}, f32, world.device().id());
  const Stream stream(world.device());
  all_reduce(team, view, view, stream);
  team.synchronize(stream);
  world.device().download(values.data(), buffer.data(), buffer.bytes());
  float ranks = 0;
  for (const int member : team.members()) ranks += static_cast<float>(member + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], ranks + static_cast<float>(team.size()) * static_cast<float>(i));
  }
}

TEST_F(Kill, TheOthersHearWhoIsLostAndGoOnWithoutIt) {
  std::mt19937_64 random(testing::seed());
  for (const int ranks : {2, 3, 4, 5}) {
    for (int round = 0; round < 3; ++round) {
      const int victim = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
      const auto delay = std::chrono::microseconds(random() % 20'000);
      const Shared<Scene> scene;
      run_ranks(ranks,
                [&](World& world) {
                  enter(world, victim, *scene);
                  const std::vector<int> others = all_but(ranks, victim);
                  const Team before = world.team(others);  // this one never had the victim
                  world.team().barrier();
                  if (world.rank() == victim) {
                    std::this_thread::sleep_for(delay);
                    die(*scene);
                  }
                  expect_loss(world, victim, *scene, world.team(), [&] { world.team().barrier(); });
                  EXPECT_FALSE(before.failed());
                  before.barrier();
                  const Team after = world.team(others);
                  after.barrier();
                  EXPECT_FALSE(after.failed());
                  EXPECT_THROW(static_cast<void>(world.team(all_but(ranks, -1))), PeerLost);
                },
                {.limit = 30s, .may_die = {victim}});
      leave(ranks, victim, *scene);
    }
  }
  expect_fast();
}

// A process that the dead rank forked keeps its sockets open: only the pidfd tells then.
TEST_F(Kill, AChildThatHoldsTheDeadRanksSocketsHidesNothing) {
  const Shared<Scene> scene;
  run_ranks(3,
            [&](World& world) {
              enter(world, 1, *scene);
              world.team().barrier();
              if (world.rank() == 1) {
                if (::fork() == 0) {
                  for (int i = 0; i < 5000 && !scene->over; ++i) ::usleep(1000);
                  ::_exit(0);
                }
                die(*scene);
              }
              expect_loss(world, 1, *scene, world.team(), [&] { world.team().barrier(); });
              const Team rest = world.team({2, 0});
              rest.barrier();
              scene->over = true;
            },
            {.limit = 30s, .may_die = {1}});
  // The child has been told to go, and holds the sockets until it is gone.
  for (int i = 0; i < 500 && !sockets_named(socket_prefix(scene->job_hash)).empty(); ++i) {
    std::this_thread::sleep_for(10ms);
  }
  leave(3, 1, *scene);
  expect_fast();
}

TEST_F(Kill, ARankThatEndsByAnErrorIsLostToo) {
  const Shared<Scene> scene;
  run_ranks(3,
            [&](World& world) {
              enter(world, 2, *scene);
              world.team().barrier();
              if (world.rank() == 2) {
                scene->killed_us = now_us();
                ::_exit(3);
              }
              expect_loss(world, 2, *scene, world.team(), [&] { world.team().barrier(); });
              world.team({0, 1}).barrier();
            },
            {.limit = 30s, .may_die = {2}});
  leave(3, 2, *scene);
  expect_fast();
}

TEST_F(Kill, AStoppedRankIsNotLostButLate) {
  const Shared<Scene> scene;
  run_ranks(2, [&](World& world) {
    enter(world, 1, *scene);
    const Team team = world.team({0, 1});
    team.set_timeout(200ms);
    world.team().barrier();
    if (world.rank() == 1) {
      ::kill(::getpid(), SIGSTOP);
    } else {
      int late = -1;
      try {
        while (true) team.barrier();
      } catch (const Timeout& error) {
        late = error.peer();
      }
      EXPECT_EQ(late, 1);
      // Told to go on before it has stopped, it would stop for good.
      for (int i = 0; i < 1000 && testing::state_of(scene->victim) != 'T'; ++i) std::this_thread::sleep_for(5ms);
      ::kill(scene->victim, SIGCONT);
    }
    world.team().barrier();
    for (int i = 0; i < 1000 && !team.failed(); ++i) std::this_thread::sleep_for(5ms);  // the late rank is told
    EXPECT_TRUE(team.failed());
  });
}

class KillOn : public Kill, public ::testing::WithParamInterface<DeviceType> {
 protected:
  void at_a_random_point_of_any_operation(Repeat repeat);

  void SetUp() override {
    Kill::SetUp();
    if (const std::string reason = testing::why_no_ranks_on(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
};

// The survivors' sums in the end also show that their processes, and on CUDA their contexts, are as good as before.
void KillOn::at_a_random_point_of_any_operation(Repeat repeat) {
  std::mt19937_64 random(testing::seed());
  const bool host = GetParam() == DeviceType::host;
  const std::span<const Operation> operations = all_operations();
  const std::size_t kinds = operations.size();
  // On CUDA each kind once: to start its ranks takes seconds.
  const std::size_t wanted = host ? static_cast<std::size_t>(200 * testing::stress_scale()) : kinds;
  const std::set<std::string> before = names_in_shared_memory();
  for (std::size_t round = 0; round < std::max(wanted, kinds) && !HasFailure(); ++round) {
    const Operation& operation = operations[round % kinds];
    const bool large = (random() & 1U) != 0;
    const int ranks = 2 + static_cast<int>(random() % 3);
    const int victim = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
    const auto delay = std::chrono::microseconds(random() % 15'000);
    SCOPED_TRACE("round " + std::to_string(round) + " of TANDEM_TEST_SEED=" + std::to_string(testing::seed()) + ": " +
                 operation.name + (large ? ", large, " : ", small, ") + std::to_string(ranks) + " ranks, rank " +
                 std::to_string(victim) + " killed after " + std::to_string(delay.count()) + " us");
    const Shared<Scene> scene;
    run_ranks(ranks,
              [&](World& world) {
                enter(world, victim, *scene);
                const Team team = world.team(all_but(ranks, -1));
                Stage stage(world, team, large, repeat);
                const Work work = operation.prepare(stage);
                team.barrier();
                if (world.rank() == victim) {
                  std::thread([&] {
                    std::this_thread::sleep_for(delay);
                    die(*scene);
                  }).detach();
                  while (true) work();
                }
                expect_loss(world, victim, *scene, team, work);
                const Team rest = world.team(all_but(ranks, victim));
                expect_sums(world, rest);
              },
              {.device = GetParam(), .limit = host ? 15s : 60s, .may_die = {victim}});
    leave(ranks, victim, *scene);
  }
  expect_fast();
  EXPECT_EQ(left_in_shared_memory(before), std::set<std::string>());
}

TEST_P(KillOn, AtARandomPointOfAnyOperation) { at_a_random_point_of_any_operation(queued); }

TEST_P(KillOn, AtARandomPointOfAnyReplay) {
  if (GetParam() == DeviceType::host) GTEST_SKIP() << "the host has no graphs";
#ifdef TANDEM_WITH_CUDA
  at_a_random_point_of_any_operation(replayed);
#endif
}

TANDEM_ON_EACH_DEVICE(KillOn);

}  // namespace
}  // namespace tandem::fault

// SPDX-License-Identifier: Apache-2.0
// Ranks that die or leave: what the others are told, how soon, and what they can still do.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <set>
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
#include "support/oracle.hpp"
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

template <typename Numbers> auto median_of(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

/// State shared by the ranks of one job and the test.
struct Scene {
  std::atomic<std::int64_t> killed_us;
  std::atomic<pid_t> victim;
  std::atomic<std::uint64_t> job_hash;
  std::atomic<bool> over;
  std::atomic<int> ready;  // survivors that have left the barriers of `meet`
  std::array<std::atomic<std::int64_t>, 8> calm_us;
  std::array<std::atomic<std::int64_t>, 8> heard_us;
};

class Kill : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = testing::why_no_rank_may_die(); !reason.empty()) GTEST_SKIP() << reason;
  }

  /// Called on each rank, before anything else.
  static void enter(const World& world, int victim, Scene& scene) {
    if (world.rank() != victim) return;
    const std::uint64_t hash = testing::hash_of_job(world.launch().job);
    EXPECT_FALSE(sockets_named(socket_prefix(hash)).empty()) << "while it lives, a job has sockets";
    scene.job_hash = hash;
    scene.victim = ::getpid();
  }

  /// Called on each rank of `team`, before the victim may die: records how long a barrier takes while nobody dies. On
  /// the victim, returns only when no survivor is in one of these barriers any more.
  static void meet(const World& world, int victim, Scene& scene, const Team& team) {
    team.barrier();
    std::array<std::int64_t, 5> calls{};
    for (std::int64_t& call : calls) {
      const std::int64_t before = now_us();
      team.barrier();
      call = now_us() - before;
    }
    scene.calm_us[static_cast<std::size_t>(world.rank())] = median_of(calls);
    if (world.rank() != victim) {
      ++scene.ready;
    } else {
      while (scene.ready < team.size() - 1) std::this_thread::sleep_for(1ms);
    }
  }

  static void die(Scene& scene) {
    scene.killed_us = now_us();
    ::kill(::getpid(), SIGKILL);
  }

  /// Repeats `work` until it throws, which must be a PeerLost that names the victim.
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
    // The construction of a sub-team may be told shortly before its parent is.
    for (int i = 0; i < 100 && !team.failed(); ++i) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(team.failed());
    EXPECT_THROW(team.check(), PeerLost);
    EXPECT_THROW(team.barrier(), PeerLost);
  }

  /// Records how long the survivors took to be told, and checks that the job has left nothing behind.
  void leave(int ranks, int victim, const Scene& scene) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t heard = scene.heard_us[static_cast<std::size_t>(rank)];
      if (rank != victim && heard != 0) {
        milliseconds_.push_back(static_cast<double>(heard - scene.killed_us) / 1e3);
        calm_milliseconds_.push_back(static_cast<double>(scene.calm_us[static_cast<std::size_t>(rank)]) / 1e3);
      }
    }
    EXPECT_EQ(sockets_named(socket_prefix(scene.job_hash)), std::vector<std::string>());
    EXPECT_NE(::kill(scene.victim, 0), 0);
  }

  /// Relative to a barrier's time, since on a busy machine both wait for the same ranks to be scheduled.
  [[nodiscard]] double median_limit() const { return std::max(100.0, 10 * median_of(calm_milliseconds_)); }
  [[nodiscard]] bool median_is_late() const { return median_of(milliseconds_) >= median_limit(); }

  void expect_fast() {
    ASSERT_FALSE(milliseconds_.empty());
    std::sort(milliseconds_.begin(), milliseconds_.end());
    const double median = milliseconds_[milliseconds_.size() / 2];
    const double p90 = milliseconds_[(milliseconds_.size() * 9 - 1) / 10];
    const double most = milliseconds_.back();
    const double calm = median_of(calm_milliseconds_);
    std::printf(
        "[ survivors] %zu heard of a loss after %.1f ms (median), %.1f ms (p90), %.1f ms (most); "
        "a barrier took %.1f ms before\n",
        milliseconds_.size(), median, p90, most, calm);
    EXPECT_LT(median, median_limit());
    // Of only a few, the slowest may have been delayed by the machine.
    if (milliseconds_.size() >= 20) {
      EXPECT_LT(p90, 500.0) << "one survivor in ten is told late: some wait does not look at its peers' fate";
    }
    EXPECT_LT(most, 5000.0) << "a survivor was told by a deadline, or by chance, and not by the loss";
  }

 private:
  std::vector<double> milliseconds_;
  std::vector<double> calm_milliseconds_;
};

std::vector<int> all_but(int ranks, int victim) {
  std::vector<int> rest;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != victim) rest.push_back(rank);
  }
  return rest;
}

/// Checks an all-reduce over `team`, with a plan of its own.
void expect_sums(const World& world, const Team& team) {
  constexpr std::int64_t count = 1000;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(world.rank() + 1) + static_cast<float>(i);
  }
  Buffer buffer(world.shared_device(), count * sizeof(float));
  world.device().upload(buffer.data(), values.data(), buffer.bytes());
  const TensorView view = buffer.view({count}, f32);
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
                  const Team before = world.team(others);  // the victim was never a member of this one
                  meet(world, victim, *scene, world.team());
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

// A process that the dead rank forked keeps its sockets open: then only the pidfd reports the death.
TEST_F(Kill, AChildThatHoldsTheDeadRanksSocketsHidesNothing) {
  const Shared<Scene> scene;
  run_ranks(3,
            [&](World& world) {
              enter(world, 1, *scene);
              meet(world, 1, *scene, world.team());
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
  // The child has been told to exit, and keeps the sockets open until it has.
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
              meet(world, 2, *scene, world.team());
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
      // SIGCONT before it has stopped would be lost, and it would stop forever.
      for (int i = 0; i < 1000 && testing::state_of(scene->victim) != 'T'; ++i) std::this_thread::sleep_for(5ms);
      ::kill(scene->victim, SIGCONT);
    }
    world.team().barrier();
    for (int i = 0; i < 1000 && !team.failed(); ++i) std::this_thread::sleep_for(5ms);  // the late rank is told
    EXPECT_TRUE(team.failed());
  });
}

/// One form of an operation, and how many ranks are killed during it (times TANDEM_TEST_SCALE).
struct Case {
  DeviceType device;
  const Operation* operation;
  int kills;
};

std::string why_not(const Case& which) {
  return which.operation->kind() == "ContextParallelAttention" ? testing::why_no_attention_on(which.device)
                                                               : testing::why_no_ranks_on(which.device);
}

class KillAmid : public Kill, public ::testing::WithParamInterface<Case> {
 protected:
  static constexpr int most_ranks = 4;
  /// One for each kill in a world, one after the other until one rank is left.
  using Scenes = std::array<Scene, most_ranks - 1>;

  void SetUp() override {
    Kill::SetUp();
    if (const std::string reason = why_not(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }

  void at_random_points(Repeat repeat);
  void kill_in_turn(const std::vector<int>& victims, int survivor, std::uint64_t round, Repeat repeat);
};

void KillAmid::at_random_points(Repeat repeat) {
  std::mt19937_64 random(testing::seed());
  const std::set<std::string> before = names_in_shared_memory();
  const int enough = static_cast<int>(std::ceil(GetParam().kills * testing::stress_scale()));
  int left = enough;
  int more = 2;
  for (std::uint64_t round = 0; left > 0 && !HasFailure(); ++round) {
    const int kills = std::min(left, most_ranks - 1);  // starting a world takes longest, on CUDA seconds
    std::vector<int> victims(static_cast<std::size_t>(kills) + 1);
    std::iota(victims.begin(), victims.end(), 0);
    std::shuffle(victims.begin(), victims.end(), random);
    const int survivor = victims.back();
    victims.pop_back();
    kill_in_turn(victims, survivor, random(), repeat);
    left -= kills;
    // A busy machine may delay most of a few kills; a real slowness remains however many there are.
    if (left == 0 && more > 0 && !HasFailure() && median_is_late()) {
      left = enough;
      --more;
    }
  }
  expect_fast();
  EXPECT_EQ(left_in_shared_memory(before), std::set<std::string>());
}

// The survivors' teams without the dead rank, and their sums, also show that their processes, and on CUDA their
// contexts, still work.
void KillAmid::kill_in_turn(const std::vector<int>& victims, int survivor, std::uint64_t round, Repeat repeat) {
  const auto [device, operation, kills] = GetParam();
  const bool host = device == DeviceType::host;
  const int ranks = static_cast<int>(victims.size()) + 1;
  const Shared<Scenes> scenes;
  const auto kill_one = [&](const World& world, std::size_t turn) {  // does not return on its victim
    const std::uint64_t bits = testing::key(round, {turn});
    const std::array sizes = operation->most == Messages::bulk && !host ? std::array{Messages::large, Messages::bulk}
                                                                        : std::array{Messages::small, Messages::large};
    const Messages messages = sizes[bits & 1U];
    const auto delay = std::chrono::microseconds((bits >> 1) % 15'000);
    const int victim = victims[turn];
    SCOPED_TRACE("TANDEM_TEST_SEED=" + std::to_string(testing::seed()) + ": " + operation->name + ", messages " +
                 std::to_string(static_cast<int>(messages)) + ", rank " + std::to_string(victim) + " as number " +
                 std::to_string(turn + 1) + " of " + std::to_string(ranks) + " killed after " +
                 std::to_string(delay.count()) + " us");
    std::vector<int> living(victims.begin() + static_cast<std::ptrdiff_t>(turn), victims.end());
    living.push_back(survivor);
    std::sort(living.begin(), living.end());
    const Team team = world.team(living);
    Scene& scene = (*scenes)[turn];
    Stage stage(world, team, messages, repeat);
    const Work work = operation->prepare(stage);
    meet(world, victim, scene, team);
    if (world.rank() == victim) {
      std::thread([&] {
        std::this_thread::sleep_for(delay);
        die(scene);
      }).detach();
      while (true) work();
    }
    expect_loss(world, victim, scene, team, work);
    std::erase(living, victim);
    expect_sums(world, world.team(living));
  };
  run_ranks(ranks,
            [&](World& world) {
              for (std::size_t turn = 0; turn < victims.size(); ++turn) enter(world, victims[turn], (*scenes)[turn]);
              world.team().barrier();
              for (std::size_t turn = 0; turn < victims.size(); ++turn) kill_one(world, turn);
            },
            {.device = device, .limit = host ? 30s : 90s, .may_die = victims});
  for (std::size_t turn = 0; turn < victims.size(); ++turn) leave(ranks, victims[turn], (*scenes)[turn]);
}

TEST_P(KillAmid, Runs) { at_random_points(queued); }

class KillAmidReplays : public KillAmid {};

TEST_P(KillAmidReplays, OfAGraph) {
#ifdef TANDEM_WITH_CUDA
  at_random_points(replayed);
#endif
}

/// Ranks that end their worlds normally while the others continue, as after an error that only they had.
class LeaveAmid : public KillAmid {
 protected:
  void SetUp() override {  // nobody is killed
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP()
        << "past a wait that failed a stream goes on, into memory that peers may be reading: what comes of that "
           "does not count, but it is a race";
#endif
    if (const std::string reason = why_not(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
};

// The others are told as soon as they wait for a run that it does not take part in, not at their deadline.
TEST_P(LeaveAmid, Runs) {
  const auto [device, operation, kills] = GetParam();
  std::mt19937_64 random(testing::seed());
  for (const auto& [ranks, messages] : {std::pair(2, Messages::small), {3, Messages::small}, {2, Messages::large}}) {
    const int leaver = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
    const std::uint64_t runs = random() % 4;
    SCOPED_TRACE("TANDEM_TEST_SEED=" + std::to_string(testing::seed()) + ": messages " +
                 std::to_string(static_cast<int>(messages)) + ", rank " + std::to_string(leaver) + " leaves after " +
                 std::to_string(runs) + " runs");
    const Shared<Scene> scene;
    run_ranks(ranks,
              [&, ranks = ranks, messages = messages](World& world) {
                enter(world, leaver, *scene);
                Stage stage(world, world.team(), messages, queued);
                const Work work = operation->prepare(stage);
                meet(world, leaver, *scene, world.team());
                if (world.rank() == leaver) {
                  for (std::uint64_t run = 0; run < runs; ++run) work();
                  scene->killed_us = now_us();
                  return;
                }
                expect_loss(world, leaver, *scene, world.team(), work);
                expect_sums(world, world.team(all_but(ranks, leaver)));
              },
              {.device = device, .limit = 90s});
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == leaver) continue;
      EXPECT_LT(scene->heard_us[static_cast<std::size_t>(rank)] - scene->killed_us, 20'000'000) << rank;
    }
  }
}

bool is_on(DeviceType device, const Operation& operation) {
  return operation.on == Operation::any_device || device == DeviceType::cuda;
}

/// 50 ranks are killed during each kind of operation; on the host, during each form of one. A GPU's driver starts some
/// four processes per second, however many ask it to, so there a kind's forms share the 50, each queued and replayed.
int kills_during(DeviceType device, const Operation& operation) {
  constexpr int enough = 50;
  if (device == DeviceType::host) return enough;
  const auto forms = static_cast<int>(std::ranges::count_if(
      all_operations(), [&](const Operation& each) { return is_on(device, each) && each.kind() == operation.kind(); }));
  const int tests = forms * (operation.of == Operation::runs ? 2 : 1);
  return (enough + tests - 1) / tests;
}

std::vector<Case> cases(DeviceType device, bool (*fits)(const Operation&)) {
  std::vector<Case> all;
  for (const Operation& operation : all_operations()) {
    if (is_on(device, operation) && fits(operation)) {
      all.push_back({device, &operation, kills_during(device, operation)});
    }
  }
  return all;
}

std::vector<Case> all_cases(DeviceType device) {
  return cases(device, [](const Operation& /*any*/) { return true; });
}

std::vector<Case> cases_of_runs(DeviceType device) {
  return cases(device, [](const Operation& each) { return each.of == Operation::runs; });
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  std::string text = std::string(name(info.param.device)) + "_";
  for (const char* letter = info.param.operation->name; *letter != '\0'; ++letter) {
    if (*letter != ',') text += *letter == ' ' ? '_' : *letter;
  }
  return text;
}

INSTANTIATE_TEST_SUITE_P(Host, KillAmid, ::testing::ValuesIn(all_cases(DeviceType::host)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, KillAmid, ::testing::ValuesIn(all_cases(DeviceType::cuda)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, KillAmidReplays, ::testing::ValuesIn(cases_of_runs(DeviceType::cuda)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Host, LeaveAmid, ::testing::ValuesIn(cases_of_runs(DeviceType::host)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, LeaveAmid, ::testing::ValuesIn(cases_of_runs(DeviceType::cuda)), name_of_case);

}  // namespace
}  // namespace tandem::fault

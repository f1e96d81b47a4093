// SPDX-License-Identifier: Apache-2.0
// Collectives captured into CUDA graphs.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"

#include "collective/player.hpp"
#include "collective/support.hpp"
#include "support/cuda/captured_graph.hpp"
#include "support/cuda/memory_lost.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

class CaptureTest : public CollectiveTest {};
class CapturedPlan : public OnEachDevice {};

template <typename T> Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

constexpr int captured_runs = 24;
constexpr int rounds = 4;
constexpr int replays_of_a_round = 6;
constexpr std::uint64_t longest_delay_us = 500;

TEST_P(CaptureTest, ReplaysAndEagerRunsTakeTurns) {
  run([](World& world) {
    Player<std::int32_t> player(world.team(), 1, captured_runs + 2 * replays_of_a_round);
    const CapturedGraph graph(world.device(), player.stream(), [&] {
      for (int run = 0; run < captured_runs; ++run) player.play(longest_delay_us);
    });
    player.repeats_what_was_played();
    Draws draws(2);
    for (int round = 0; round < rounds; ++round) {
      for (int turn = 0; turn < replays_of_a_round; ++turn) {
        graph.launch(player.stream());
        for (std::uint64_t left = draws.below(3); left > 0; --left) player.play(longest_delay_us);
      }
      player.check();
    }
  });
}

enum class Others : std::uint8_t { eager, captured };

/// Replays one team's runs concurrently with runs of a second team, which has the same ranks in reverse order and a
/// stream of its own. Which of the two is launched first is random, but the same on all ranks.
void check_beside_another_team(World& world, Others others) {
  std::vector<int> backwards;
  for (int rank = world.size() - 1; rank >= 0; --rank) backwards.push_back(rank);
  constexpr std::uint64_t most_eager = 5;
  const bool captured = others == Others::captured;
  Player<std::int32_t> one(world.team(), 4, captured_runs);
  Player<float> other(world.team(backwards), 5,
                      captured ? captured_runs : replays_of_a_round * static_cast<int>(most_eager));
  const auto graph_of = [&](auto& player) {
    auto graph = std::make_unique<CapturedGraph>(world.device(), player.stream(), [&] {
      for (int run = 0; run < captured_runs; ++run) player.play(longest_delay_us);
    });
    player.repeats_what_was_played();
    return graph;
  };
  const auto graph = graph_of(one);
  const auto others_graph = captured ? graph_of(other) : nullptr;
  Draws draws(6);
  for (int round = 0; round < rounds; ++round) {
    for (int turn = 0; turn < replays_of_a_round; ++turn) {
      const bool first = draws.below(2) == 0;
      if (first) graph->launch(one.stream());
      if (captured) {
        others_graph->launch(other.stream());
      } else {
        for (std::uint64_t left = 1 + draws.below(most_eager); left > 0; --left) other.play(longest_delay_us);
      }
      if (!first) graph->launch(one.stream());
    }
    one.check();
    other.check();
  }
}

TEST_P(CaptureTest, ReplaysBesideAnotherTeamsEagerRuns) {
  run([](World& world) { check_beside_another_team(world, Others::eager); });
}

TEST_P(CaptureTest, ReplaysBesideAnotherTeamsReplays) {
  run([](World& world) { check_beside_another_team(world, Others::captured); });
}

TEST_P(CaptureTest, OneRunAGraphTakesItsOneSlotEachTime) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    AllReduce all_reduce(team, {.count = 3000, .dtype = i64}, {.piece_bytes = 4096});
    AllGather all_gather(team, {.count = 3000, .dtype = i64}, {.piece_bytes = 4096});
    for (const std::int64_t count : {1, 400, 3000}) {
      // Each result is the next input. A replay that begins before its slot is free sums or gathers stale data.
      GuardedTensor value(team, {count}, i64);
      GuardedTensor all(team, {team.size() * count}, i64);
      std::vector<std::int64_t> wanted(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<std::int64_t>(i) + 1;
      value.set(bytes_of(wanted));
      const CapturedGraph reduces(team.device(), stream, [&] { all_reduce(value.view(), value.view(), stream); });
      const CapturedGraph gathers(team.device(), stream, [&] { all_gather(value.view(), all.view(), stream); });
      Draws draws(3);
      constexpr int replays = 10;
      for (int replay = 0; replay < replays; ++replay) {
        delay_somebody(team, stream, draws, longest_delay_us);
        reduces.launch(stream);
        if (draws.below(3) == 0) all_gather(value.view(), all.view(), stream);
        gathers.launch(stream);
        for (std::int64_t& element : wanted) element *= team.size();
      }
      team.synchronize(stream);
      expect_bytes(value.get(), bytes_of(wanted), "the sum of sums");
      std::vector<std::int64_t> gathered;
      for (int rank = 0; rank < team.size(); ++rank) gathered.insert(gathered.end(), wanted.begin(), wanted.end());
      expect_bytes(all.get(), bytes_of(gathered), "the gathered sums");
    }
  });
}

// Results are the next inputs, from each rank to every other: a message too early or too late makes everything wrong.
TEST_P(CaptureTest, ExchangesAndBroadcastsOfOneRunAGraphAndEagerOnesTakeTurns) {
  run([](World& world) {
    const Team& team = world.team();
    const int n = team.size();
    const auto me = static_cast<std::size_t>(team.rank());
    const Stream stream(team.device());
    std::vector<CollectiveOptions> ways{{.piece_bytes = 4096}};
    if (team.device().exchanges_mail()) ways.push_back({.algorithm = "one_kernel"});
    for (const CollectiveOptions& options : ways) {
      AllToAll exchange(team, {.count = 30'000, .dtype = i64}, options);
      Broadcast broadcast(team, {.count = 30'000, .dtype = i64}, options);
      for (const std::int64_t count : {1, 400, 30'000}) {
        const auto part = static_cast<std::size_t>(count);
        std::vector<std::vector<std::int64_t>> wanted;  // by rank
        for (int rank = 0; rank < n; ++rank) {
          wanted.emplace_back(part * static_cast<std::size_t>(n));
          for (std::size_t i = 0; i < wanted.back().size(); ++i) {
            wanted.back()[i] = static_cast<std::int64_t>(i) + 1'000'000 * rank;
          }
        }
        GuardedTensor value(team, {n * count}, i64);
        GuardedTensor other(team, {n * count}, i64, 1);
        value.set(bytes_of(wanted[me]));
        const auto exchange_now = [&] {
          exchange(value.view(), other.view(), stream);
          team.device().copy(stream,
                             {.dst = value.view().data(), .src = other.view().data(), .bytes = value.view().bytes()});
        };
        // The first part of `value`: the root's replaces every other rank's.
        const TensorView first = value.view().narrow(0, 0, count);
        const auto broadcast_now = [&](int root) { broadcast(first, root, stream); };
        const CapturedGraph exchanges(team.device(), stream, exchange_now);
        std::deque<CapturedGraph> broadcasts;
        for (const int root : {0, n - 1}) {
          broadcasts.emplace_back(team.device(), stream, [&] { broadcast_now(root); });
        }
        Draws draws(4);
        for (int turn = 0; turn < 30; ++turn) {
          delay_somebody(team, stream, draws, longest_delay_us);
          const bool eager = draws.below(2) == 0;
          if (draws.below(2) == 0) {
            eager ? exchange_now() : exchanges.launch(stream);
            auto made = wanted;
            for (std::size_t from = 0; from < wanted.size(); ++from) {
              for (std::size_t to = 0; to < wanted.size(); ++to) {
                std::copy_n(wanted[from].begin() + static_cast<std::ptrdiff_t>(to * part), count,
                            made[to].begin() + static_cast<std::ptrdiff_t>(from * part));
              }
            }
            wanted = std::move(made);
          } else {
            const std::size_t which = draws.below(2);
            const int root = which == 0 ? 0 : n - 1;
            eager ? broadcast_now(root) : broadcasts[which].launch(stream);
            const auto source = wanted[static_cast<std::size_t>(root)];
            for (auto& each : wanted) std::copy_n(source.begin(), count, each.begin());
          }
        }
        team.synchronize(stream);
        expect_bytes(value.get(), bytes_of(wanted[me]), options.algorithm + ", parts of " + std::to_string(count));
      }
    }
  });
}

TEST_P(CaptureTest, TwoStreamsOfOneCaptureRunOnePlanInTurn) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream first(team.device());
    const Stream second(team.device());
    Event fork(team.device());
    Event join(team.device());
    AllReduce all_reduce(team, {.count = 5000, .dtype = i64}, {.piece_bytes = 4096});
    std::vector<GuardedTensor> chain;
    for (int link = 0; link <= 4; ++link) chain.emplace_back(team, Dims{5000}, i64);
    std::vector<std::int64_t> wanted(5000);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<std::int64_t>(i);
    chain.front().set(bytes_of(wanted));
    const CapturedGraph graph(team.device(), first, [&] {
      order_after(second, first, fork);
      for (std::size_t link = 0; link < 4; ++link) {
        const Stream& stream = link % 2 == 0 ? second : first;
        all_reduce(chain[link].view(), chain[link + 1].view(), stream);
      }
      order_after(first, second, join);
    });
    for (int replay = 0; replay < 2; ++replay) {
      for (std::size_t link = 1; link < chain.size(); ++link) chain[link].poison();
      graph.launch(first);
      team.synchronize(first);
      std::vector<std::int64_t> sums = wanted;
      for (std::size_t link = 1; link < chain.size(); ++link) {
        for (std::int64_t& value : sums) value *= team.size();
        expect_bytes(chain[link].get(), bytes_of(sums), "link " + std::to_string(link));
      }
    }
  });
}

TEST_P(CapturedPlan, AGraphKeepsWhatItsPlanOwned) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    TANDEM_EXPECT_CUDA(cudaSetDevice(team.device().id().index));  // for free_memory()
    constexpr std::int64_t count = 8 << 20;
    const std::vector<std::int32_t> ones(static_cast<std::size_t>(count), 1);
    GuardedTensor value(team, {count}, i32);
    GuardedTensor sum(team, {count}, i32);
    value.set(bytes_of(ones));
    const auto all_ranks = [&](const auto& say) {  // ranks may share a GPU, and so its free memory
      team.barrier();
      const std::size_t said = say();
      team.barrier();
      return said;
    };
    team.collect();
    const std::size_t before = all_ranks(free_memory);
    auto plan = std::make_optional<AllReduce>(team, AllReduceSpec{.count = count, .dtype = i32});
    auto graph =
        std::make_optional<CapturedGraph>(team.device(), stream, [&] { (*plan)(value.view(), sum.view(), stream); });
    plan.reset();
    team.collect();
    constexpr std::size_t slots = std::size_t{2} * 32 << 20;  // of each rank, for pieces of 32 MiB
    EXPECT_LE(all_ranks(free_memory) + slots, before) << "what the graph needs is gone";
    const AllReduce another(team, {.count = count, .dtype = i32});  // would reuse the first one's memory, were it free
    for (int replay = 0; replay < 3; ++replay) {
      sum.poison();
      graph->launch(stream);
      team.synchronize(stream);
      const std::vector<std::int32_t> wanted(static_cast<std::size_t>(count), team.size());
      expect_bytes(sum.get(), bytes_of(wanted), "replay " + std::to_string(replay));
    }
    // The driver releases a graph's objects on a thread of its own.
    const std::size_t with_graph = all_ranks(free_memory);
    graph.reset();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    std::size_t now = with_graph;
    while (now < with_graph + slots && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      team.collect();
      now = free_memory();
    }
    EXPECT_GE(now, with_graph + slots) << "what the graph kept is still there";
  });
}

TEST_P(CapturedPlan, PlansTensorsAndGraphsGiveAllMemoryBack) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const auto play = [&] {
      Player<std::int32_t> player(team, 10, 2 * captured_runs);
      const CapturedGraph graph(world.device(), player.stream(), [&] {
        for (int run = 0; run < captured_runs; ++run) player.play(longest_delay_us);
      });
      player.repeats_what_was_played();
      graph.launch(player.stream());
      for (int run = 0; run < captured_runs; ++run) player.play(longest_delay_us);
      player.check();
    };
    EXPECT_LT(memory_lost(team, 6, std::chrono::seconds(10), play), memory_not_lost);
    // Would a leak be noticed? Leak on each rank as little as the smallest plan owns.
    std::vector<SymmetricTensor> kept;
    const std::size_t lost = memory_lost(team, 6, {}, [&] { kept.push_back(symmetric(team, {1}, i32)); });
    EXPECT_GE(lost, memory_not_lost);
  });
}

TEST_P(CapturedPlan, AFunctionWithoutAPlanIsRefused) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    GuardedTensor value(team, {100}, i32);
    const std::vector<std::int32_t> ones(100, 1);
    value.set(bytes_of(ones));
    std::string refusal;
    const CapturedGraph nothing(team.device(), stream, [&] {
      try {
        all_reduce(team, value.view(), value.view(), stream);
      } catch (const InvalidArgument& error) {
        refusal = error.what();
      }
    });
    EXPECT_NE(refusal.find("all_reduce of 100 i32 on rank"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("call it once before"), std::string::npos) << refusal;
    all_reduce(team, value.view(), value.view(), stream);
    const CapturedGraph graph(team.device(), stream, [&] { all_reduce(team, value.view(), value.view(), stream); });
    graph.launch(stream);
    team.synchronize(stream);
    const std::vector<std::int32_t> wanted(100, team.size() * team.size());
    expect_bytes(value.get(), bytes_of(wanted), "two sums");
  });
}

TEST_P(CapturedPlan, WhatADroppedCaptureStartedIsForgotten) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    AllGather gather(team, {.count = 100, .dtype = i32});
    SymmetricTensor gathered = symmetric(team, {100 * team.size()}, i32);
    std::vector<std::int32_t> wanted(static_cast<std::size_t>(100 * team.size()));
    std::iota(wanted.begin(), wanted.end(), 0);
    const auto whole = bytes_of(wanted);
    const auto own = std::span(wanted).subspan(static_cast<std::size_t>(100 * team.rank()), 100);
    GuardedTensor shard(team, {100}, i32);
    shard.set(bytes_of(std::vector<std::int32_t>(own.begin(), own.end())));
    struct Dropped {};
    EXPECT_THROW(CapturedGraph(team.device(), stream,
                               [&] {
                                 gather.start(shard.view(), gathered, stream);
                                 throw Dropped();
                               }),
                 Dropped);
    const auto expect_refused = [](const auto& step) {
      expect_error<InvalidArgument>(step, {"AllGather on rank", "captured into one graph, or none"});
    };
    expect_refused([&] { gather.wait_shard(0, stream); });
    expect_refused([&] { gather.finish(stream); });
    poison(gathered);
    gather(shard.view(), gathered, stream);
    team.synchronize(stream);
    expect_bytes(get(gathered), whole, "behind a dropped capture");
    poison(gathered);
    gather.start(shard.view(), gathered, stream);
    const Stream captured(team.device());
    const CapturedGraph nothing(team.device(), captured, [&] { expect_refused([&] { gather.finish(captured); }); });
    gather.finish(stream);
    team.synchronize(stream);
    expect_bytes(get(gathered), whole, "that was to end in a capture");
  });
}

INSTANTIATE_TEST_SUITE_P(On, CaptureTest,
                         ::testing::Combine(::testing::Values(DeviceType::cuda), ::testing::ValuesIn(team_sizes())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(On, CapturedPlan, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing

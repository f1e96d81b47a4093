// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"

namespace tandem::testing {

/// Any of the five collectives, from plain memory into other plain memory.
struct Communication {
  std::string name;
  std::int64_t given;  ///< elements of a rank's input
  std::int64_t made;   ///< elements of its result
  std::function<void(const TensorView& from, const TensorView& into, StreamRef stream)> queue;
  /// Element `at` of this rank's result, from the inputs of all ranks.
  std::function<double(const std::vector<std::vector<double>>& all, std::size_t at)> expected;
};

/// Collective. Creates all five, of `count` f32 per rank.
[[nodiscard]] inline std::vector<Communication> communications(const Team& team, std::int64_t count) {
  const std::int64_t total = count * team.size();
  const auto part = static_cast<std::size_t>(count);
  const std::size_t mine = part * static_cast<std::size_t>(team.rank());
  const int root = team.size() - 1;
  const auto queues = [](auto plan) {
    return [plan](const TensorView& from, const TensorView& into, StreamRef stream) { (*plan)(from, into, stream); };
  };
  const auto sum = [](const std::vector<std::vector<double>>& all, std::size_t at) {
    double of_all = 0;
    for (const std::vector<double>& each : all) of_all += each[at];
    return of_all;
  };
  return {
      {"AllGather", count, total, queues(std::make_shared<AllGather>(team, AllGatherSpec{.count = count})),
       [part](const auto& all, std::size_t at) { return all[at / part][at % part]; }},
      {"ReduceScatter", total, count, queues(std::make_shared<ReduceScatter>(team, ReduceScatterSpec{.count = count})),
       [mine, sum](const auto& all, std::size_t at) { return sum(all, mine + at); }},
      {"AllReduce", total, total, queues(std::make_shared<AllReduce>(team, AllReduceSpec{.count = total})), sum},
      {"AllToAll", total, total, queues(std::make_shared<AllToAll>(team, AllToAllSpec{.count = count})),
       [part, mine](const auto& all, std::size_t at) { return all[at / part][mine + at % part]; }},
      {"Broadcast", total, total,
       [root, plan = std::make_shared<Broadcast>(team, BroadcastSpec{.count = total})](
           const TensorView& from, const TensorView& into, StreamRef stream) { (*plan)(from, into, root, stream); },
       [root](const auto& all, std::size_t at) { return all[static_cast<std::size_t>(root)][at]; }},
  };
}

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
// What `algorithm` answers is what a run does: the trace of a run shows the same steps as that of a run for which this
// algorithm was asked.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tandem/base/trace.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/device.hpp"

#include "collective/support.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

class AlgorithmTest : public CollectiveTest {};

constexpr std::int64_t shards[]{1, 100, 900, 3000, 5001, 30'000};  // in elements
constexpr std::int64_t largest_shard = 30'000;

/// The kinds of steps that this rank's part of a run consists of; several of one kind in a row count once, since their
/// number depends on the plan's pieces.
std::vector<TraceKind> steps_of(const Team& team, StreamRef stream, const std::function<void()>& run) {
  Device& device = team.device();
  device.trace().clear();
  device.trace().enable(true);
  run();
  team.synchronize(stream);
  device.trace().enable(false);
  device.trace_collect();
  std::vector<TraceKind> steps;
  for (const TraceEvent& event : device.trace().events()) {
    if (steps.empty() || steps.back() != event.kind) steps.push_back(event.kind);
  }
  return steps;
}

/// The tensors of runs with shards or parts of `count` elements.
struct Operands {
  Operands(const Team& team, std::int64_t shard)
      : stream(team.device()),
        count(shard),
        part(team, {shard}, f32),
        whole(team, {team.size() * shard}, f32),
        other(team, {team.size() * shard}, f32),
        symmetric_whole(symmetric(team, {team.size() * shard}, f32)),
        symmetric_other(symmetric(team, {team.size() * shard}, f32)) {}

  Stream stream;
  std::int64_t count;
  GuardedTensor part;
  GuardedTensor whole;
  GuardedTensor other;
  SymmetricTensor symmetric_whole;
  SymmetricTensor symmetric_other;
};

/// A form of a run.
template <typename Plan> struct Form {
  std::string name;
  Tensors tensors;
  std::function<void(Plan&, Operands&)> run;
};

/// `forms` begins with one of plain views; `longest` is the plan's count, `count_of` that of a run.
template <typename Plan, typename Spec>
void expect_answers_hold(World& world, std::int64_t longest,
                         const std::function<std::int64_t(const Operands&)>& count_of,
                         const std::vector<Form<Plan>>& forms) {
  const Team& team = world.team();
  if (team.size() == 1) GTEST_SKIP() << "a rank that is alone only copies";
  if (team.device().id().type == DeviceType::cuda) GTEST_SKIP() << "there kernels of several algorithms look the same";
  Plan plan(team, Spec{.count = longest, .dtype = f32});
  std::map<std::string, Plan> asked;
  for (const std::int64_t shard : shards) {
    Operands operands(team, shard);
    for (const auto& form : forms) {
      const std::string algorithm(plan.algorithm(count_of(operands), form.tensors));
      if (!asked.contains(algorithm)) {
        asked.emplace(algorithm, Plan(team, Spec{.count = longest, .dtype = f32}, {.algorithm = algorithm}));
      }
      // Some can be asked for with plain views only.
      const auto taken_by_name = Plan::algorithms(form.tensors);
      const bool as_here = std::ranges::find(taken_by_name, algorithm) != taken_by_name.end();
      const Form<Plan>& same = as_here ? form : forms.front();
      const auto taken = steps_of(team, operands.stream, [&] { form.run(plan, operands); });
      const auto expected = steps_of(team, operands.stream, [&] { same.run(asked.at(algorithm), operands); });
      EXPECT_FALSE(expected.empty());
      EXPECT_EQ(taken, expected) << form.name << ", shards of " << shard << ": " << algorithm;
    }
  }
}

std::int64_t count_of_shard(const Operands& operands) { return operands.count; }
std::int64_t count_of_whole(const Operands& operands) { return operands.whole.view().numel(); }

TEST_P(AlgorithmTest, IsWhatAnAllGatherTakes) {
  run([](World& world) {
    expect_answers_hold<AllGather, AllGatherSpec>(
        world, largest_shard, count_of_shard,
        {{"plain", Tensors::plain, [](auto& plan, auto& of) { plan(of.part.view(), of.whole.view(), of.stream); }},
         {"from a symmetric tensor", Tensors::symmetric_input,
          [](auto& plan, auto& of) {
            plan(of.symmetric_other.local().narrow(0, 0, of.count), of.whole.view(), of.stream);
          }},
         {"into a symmetric tensor", Tensors::symmetric_output,
          [](auto& plan, auto& of) { plan(of.part.view(), of.symmetric_whole, of.stream); }},
         {"in place", Tensors::symmetric_output, [](auto& plan, auto& of) { plan(of.symmetric_whole, of.stream); }}});
  });
}

TEST_P(AlgorithmTest, IsWhatAReduceScatterTakes) {
  run([](World& world) {
    expect_answers_hold<ReduceScatter, ReduceScatterSpec>(
        world, largest_shard, count_of_shard,
        {{"plain", Tensors::plain, [](auto& plan, auto& of) { plan(of.whole.view(), of.part.view(), of.stream); }},
         {"from a symmetric tensor", Tensors::symmetric_input,
          [](auto& plan, auto& of) { plan(of.symmetric_whole, of.part.view(), of.stream); }},
         {"in place", Tensors::symmetric_output, [](auto& plan, auto& of) { plan(of.symmetric_whole, of.stream); }}});
  });
}

TEST_P(AlgorithmTest, IsWhatAnAllReduceTakes) {
  run([](World& world) {
    expect_answers_hold<AllReduce, AllReduceSpec>(
        world, world.team().size() * largest_shard, count_of_whole,
        {{"plain", Tensors::plain, [](auto& plan, auto& of) { plan(of.whole.view(), of.other.view(), of.stream); }},
         {"from a symmetric tensor", Tensors::symmetric_input,
          [](auto& plan, auto& of) { plan(of.symmetric_whole, of.other.view(), of.stream); }},
         {"into a symmetric tensor", Tensors::symmetric_output,
          [](auto& plan, auto& of) { plan(of.whole.view(), of.symmetric_other, of.stream); }},
         {"between symmetric tensors", Tensors::symmetric_output,
          [](auto& plan, auto& of) { plan(of.symmetric_whole, of.symmetric_other, of.stream); }}});
  });
}

TEST_P(AlgorithmTest, IsWhatAnAllToAllTakes) {
  run([](World& world) {
    expect_answers_hold<AllToAll, AllToAllSpec>(
        world, largest_shard, count_of_shard,
        {{"plain", Tensors::plain, [](auto& plan, auto& of) { plan(of.whole.view(), of.other.view(), of.stream); }},
         {"from a symmetric tensor", Tensors::symmetric_input,
          [](auto& plan, auto& of) { plan(of.symmetric_whole, of.other.view(), of.stream); }},
         {"into a symmetric tensor", Tensors::symmetric_output,
          [](auto& plan, auto& of) { plan(of.whole.view(), of.symmetric_other, of.stream); }}});
  });
}

TEST_P(AlgorithmTest, IsWhatABroadcastTakes) {
  run([](World& world) {
    const int root = world.team().size() - 1;
    expect_answers_hold<Broadcast, BroadcastSpec>(
        world, world.team().size() * largest_shard, count_of_whole,
        {{"plain", Tensors::plain,
          [root](auto& plan, auto& of) { plan(of.whole.view(), of.other.view(), root, of.stream); }},
         {"from a symmetric tensor", Tensors::symmetric_input,
          [root](auto& plan, auto& of) { plan(of.symmetric_whole.local(), of.other.view(), root, of.stream); }},
         {"into a symmetric tensor", Tensors::symmetric_output,
          [root](auto& plan, auto& of) { plan(of.whole.view(), of.symmetric_other, root, of.stream); }},
         {"in place", Tensors::symmetric_output,
          [root](auto& plan, auto& of) { plan(of.symmetric_whole, root, of.stream); }}});
  });
}

TEST_P(AlgorithmTest, IsKnownForTheCountsOfThePlanOnly) {
  run([](World& world) {
    const Team& team = world.team();
    const auto expect_refused = [](const auto& plan) {
      for (const std::int64_t count : {-1, 9}) {
        expect_error<InvalidArgument>([&] { static_cast<void>(plan.algorithm(count, Tensors::plain)); },
                                      {"the algorithm for " + std::to_string(count) + " elements", "0 to 8"});
      }
      for (const std::int64_t count : {0, 8}) EXPECT_FALSE(plan.algorithm(count, Tensors::plain).empty());
    };
    expect_refused(AllGather(team, {.count = 8}));
    expect_refused(ReduceScatter(team, {.count = 8}));
    expect_refused(AllReduce(team, {.count = 8}));
    expect_refused(AllToAll(team, {.count = 8}));
    expect_refused(Broadcast(team, {.count = 8}));
  });
}

TEST_P(AlgorithmTest, IsKnownForTheTensorsOfThePlanOnly) {
  run([](World& world) {
    const Team& team = world.team();
    const AllGather push(team, {.count = 8}, {.algorithm = "push"});
    EXPECT_EQ(push.algorithm(8, Tensors::symmetric_output), "push");
    expect_error<InvalidArgument>([&] { static_cast<void>(push.algorithm(8, Tensors::plain)); },
                                  {"'push' is not for a plain view", "'staged', 'fetch'"});
    const ReduceScatter bare(team, {.count = 8}, {.staging = false});
    for (const Tensors tensors : {Tensors::symmetric_input, Tensors::symmetric_output}) {
      EXPECT_EQ(bare.algorithm(8, tensors), "direct");
    }
    expect_error<InvalidArgument>([&] { static_cast<void>(bare.algorithm(8, Tensors::plain)); }, {"without staging"});
  });
}

TANDEM_COLLECTIVE_SUITE(AlgorithmTest);

}  // namespace
}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
// What looks wrong and is not: things let go of in any order, and several plans on one tensor. Nothing crashes, and the
// results are right.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "support/ranks.hpp"

namespace tandem {
namespace {

void slow(const Team& team, StreamRef stream) {
  team.device().launch(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
}
void fill(const TensorView& tensor, float value) {
  std::fill_n(tensor.data_as<float>(), static_cast<std::size_t>(tensor.numel()), value);
}
void expect_all(const TensorView& tensor, float value) {
  for (std::int64_t i = 0; i < tensor.numel(); ++i) ASSERT_EQ(tensor.data_as<float>()[i], value) << "element " << i;
}
SymmetricTensor symmetric_tensor(const Team& team, std::int64_t count) {
  SymmetricTensor tensor = SymmetricTensor::empty(team, {count}, f32);
  tensor.rendezvous();
  return tensor;
}
/// The sum of 1 to the number of ranks: what is reduced where each rank gives its number, counted from 1.
float sum_of_ranks(const Team& team) { return static_cast<float>(team.size() * (team.size() + 1)) / 2; }
float one_of_rank(const Team& team) { return static_cast<float>(team.rank() + 1); }

constexpr std::int64_t many = 100'000;

struct Odd {
  const char* name;
  void (*use)(World& world);
};

void PrintTo(const Odd& odd, std::ostream* out) { *out << odd.name; }

constexpr Odd odd_uses[] = {
    {"TheWorldGoesFirst",
     [](World& world) {
       std::optional<World> mine(std::move(world));
       const Stream stream(mine->device());
       Event event(mine->device());
       SymmetricTensor x = symmetric_tensor(mine->team(), many);
       fill(x.local(), one_of_rank(mine->team()));
       AllReduce plan(mine->team(), {many, f32});
       mine.reset();
       plan(x, stream);
       event.record(stream);
       plan.team().synchronize(stream);
       EXPECT_TRUE(event.query());
       expect_all(x.local(), sum_of_ranks(plan.team()));
     }},
    {"AForkedChildLetsGoOfItsCopies",
     [](World& world) {
       struct Copies {
         World world;
         Stream stream{world.device()};
         SymmetricTensor x = symmetric_tensor(world.team(), many);
         AllReduce plan{world.team(), {many, f32}};
       };
       auto mine = std::make_unique<Copies>(Copies{.world = std::move(world)});
       const auto sum = [&] {
         fill(mine->x.local(), one_of_rank(mine->world.team()));
         mine->world.team().barrier();
         slow(mine->world.team(), mine->stream);
         mine->plan(mine->x, mine->stream);
         mine->world.team().synchronize(mine->stream);
         expect_all(mine->x.local(), sum_of_ranks(mine->world.team()));
       };
       sum();
       const ::pid_t child = ::fork();
       ASSERT_GE(child, 0);
       if (child == 0) {
         ::alarm(20);
         mine.reset();
         ::_exit(0);
       }
       int status = -1;
       ASSERT_EQ(::waitpid(child, &status, 0), child);
       EXPECT_EQ(status, 0);
       sum();
     }},
    {"StreamsAndEventsGoLast",
     [](World& world) {
       std::optional<World> mine(std::move(world));
       Stream stream(mine->device());
       Event event(mine->device());
       {
         std::vector<float> values(many, one_of_rank(mine->team()));
         const TensorView x(values.data(), {many}, f32);
         const Team team = mine->team();
         tandem::all_reduce(team, x, x, stream);
         event.record(stream);
         team.synchronize(stream);
       }
       mine.reset();
       event.synchronize();
       stream.synchronize();
       EXPECT_TRUE(stream.query());
       stream = Stream(stream.device());  // the device is there while one of them is
     }},
    {"AStreamGoesBeforeItsWorkHasRun",
     [](World& world) {
       std::vector<float> values(many, one_of_rank(world.team()));
       const TensorView x(values.data(), {many}, f32);
       AllReduce plan(world.team(), {many, f32});
       Event done(world.device());
       {
         const Stream stream(world.device());
         slow(world.team(), stream);
         plan(x, x, stream);
         done.record(stream);
       }
       done.synchronize();
       world.team().check();
       expect_all(x, sum_of_ranks(world.team()));
     }},
    {"CollectivesGoBeforeTheirWorkHasRun",
     [](World& world) {
       const Stream stream(world.device());
       std::vector<float> values(many, one_of_rank(world.team()));
       const TensorView x(values.data(), {many}, f32);
       slow(world.team(), stream);
       AllReduce(world.team(), {many, f32})(x, x, stream);
       const AllReduce next(world.team(), {8, f32});  // this is when memory that was let go of is freed
       world.team().synchronize(stream);
       expect_all(x, sum_of_ranks(world.team()));
     }},
    {"LinearPlansGoBeforeTheirWorkHasRun",
     [](World& world) {
       const Team& team = world.team();
       const std::int64_t m = 8 * team.size();
       const LinearSpec spec{.m = m, .n = 24, .k = 16, .dtype = f32};
       std::vector<float> ones(1024, 1.0F);  // enough for each operand
       std::vector<float> out(1024);
       const auto in = [&](Dims sizes) { return TensorView(ones.data(), sizes, f32); };
       const auto to = [&](Dims sizes) {
         std::ranges::fill(out, -1.0F);
         return TensorView(out.data(), sizes, f32);
       };
       const auto check = [&](const Stream& stream, const TensorView& y, std::int64_t sum) {
         const AllReduce next(team, {8, f32});
         team.synchronize(stream);
         expect_all(y, static_cast<float>(sum));
       };
       for (const char* algorithm : {"pipeline", "sequence"}) {
         const LinearOptions options{.algorithm = algorithm};
         const Stream stream(world.device());
         TensorView y = to({m, 24});
         slow(team, stream);
         AllGatherLinear(team, spec, options)(in({8, 16}), in({24, 16}), y, stream);
         check(stream, y, 16);
         y = to({8, 24});
         slow(team, stream);
         LinearReduceScatter(team, spec, options)(in({m, 16}), in({24, 16}), y, stream);
         check(stream, y, 16 * team.size());
         y = to({m, 24});
         slow(team, stream);
         LinearAllReduce(team, spec, options)(in({m, 16}), in({24, 16}), y, stream);
         check(stream, y, 16 * team.size());
         y = to({24, 16});
         slow(team, stream);
         LinearWeightGradient(team, spec, GatheredOperand::x, options)(in({m, 24}), in({8, 16}), y, stream);
         check(stream, y, m);
       }
     }},
    {"ATensorGoesBeforeThePlanThatUsedIt",
     [](World& world) {
       const Stream stream(world.device());
       AllReduce plan(world.team(), {many, f32}, {.algorithm = "two_shot"});
       std::vector<float> out(many);
       const TensorView y(out.data(), {many}, f32);
       for (int round = 0; round < 5; ++round) {
         {
           const SymmetricTensor x = symmetric_tensor(world.team(), many);
           fill(x.local(), one_of_rank(world.team()));
           slow(world.team(), stream);
           plan(x, y, stream);
         }
         const SymmetricTensor another = symmetric_tensor(world.team(), many);
         world.team().synchronize(stream);
         expect_all(y, sum_of_ranks(world.team()));
       }
     }},
    {"AWorkThatThrewKeepsNothingFromItsEnd",
     [](World& world) {
       std::optional<World> mine(std::move(world));
       const Stream first(mine->device());
       const Stream second(mine->device());
       const SymmetricTensor x = symmetric_tensor(mine->team(), many);
       mine->device().launch(first, [] { throw Error("from the stream"); });
       slow(mine->team(), second);
       mine->device().fill(second, x.memory().data(), std::byte{1}, many * sizeof(float));
       mine.reset();
     }},
    {"TwoPlansOnOneTensor",
     [](World& world) {
       const Team& team = world.team();
       const Stream stream(world.device());
       const SymmetricTensor x = symmetric_tensor(team, many);
       AllReduce first(team, {many, f32}, {.algorithm = "two_shot"});
       AllReduce second(team, {many, f32}, {.algorithm = "two_shot"});
       Broadcast third(team, {many, f32});
       for (int round = 0; round < 20; ++round) {
         fill(x.local(), one_of_rank(team));
         if (round % team.size() == team.rank()) slow(team, stream);
         first(x, stream);
         second(x, stream);
         third(x, round % team.size(), stream);
         team.synchronize(stream);
         expect_all(x.local(), sum_of_ranks(team) * static_cast<float>(team.size()));
         team.barrier();  // the others read it here, before it is filled again
       }
     }},
    {"TwoPlansOnOneTensorOnTwoStreams",
     [](World& world) {
       const Team& team = world.team();
       const Stream one(world.device());
       const Stream other(world.device());
       Event between(world.device());
       const SymmetricTensor x = symmetric_tensor(team, many);
       AllReduce first(team, {many, f32}, {.algorithm = "two_shot"});
       AllReduce second(team, {many, f32}, {.algorithm = "two_shot"});
       fill(x.local(), one_of_rank(team));
       slow(team, one);
       first(x, one);
       order_after(other, one, between);
       second(x, other);
       team.synchronize(other);
       expect_all(x.local(), sum_of_ranks(team) * static_cast<float>(team.size()));
     }},
    {"TwoOpenRunsOfTwoPlansOnOneTensor",
     [](World& world) {
       const Team& team = world.team();
       const Stream stream(world.device());
       const SymmetricTensor x = symmetric_tensor(team, 4 * team.size());
       fill(x.local(), -1);
       fill(x.local().narrow(0, 4 * team.rank(), 4), one_of_rank(team));
       AllGather first(team, {4, f32});
       AllGather second(team, {4, f32});
       first.start(x, stream);
       second.start(x, stream);
       first.finish(stream);
       second.finish(stream);
       team.synchronize(stream);
       for (int rank = 0; rank < team.size(); ++rank) {
         expect_all(x.local().narrow(0, 4 * rank, 4), static_cast<float>(rank + 1));
       }
     }},
};

class OddUse : public ::testing::TestWithParam<Odd> {};

TEST_P(OddUse, IsRight) {
  for (const int ranks : {1, 2, 3}) testing::run_ranks(ranks, GetParam().use, {.limit = std::chrono::seconds(60)});
}

INSTANTIATE_TEST_SUITE_P(Table, OddUse, ::testing::ValuesIn(odd_uses),
                         [](const auto& odd) { return std::string(odd.param.name); });

}  // namespace
}  // namespace tandem

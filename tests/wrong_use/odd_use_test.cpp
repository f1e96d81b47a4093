// SPDX-License-Identifier: Apache-2.0
// Uses that look wrong but are allowed: objects destroyed in any order, and several plans on one tensor. Nothing may
// crash, and the results must be right.
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <ostream>
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
#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/graph.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "support/devices.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

void slow(const Team& team, StreamRef stream) {
  team.device().launch(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
}
std::vector<float> floats(std::int64_t count, float value) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}
void fill(const Team& team, const TensorView& tensor, float value) {
  const std::vector<float> values = floats(tensor.numel(), value);
  team.device().upload(tensor.data(), values.data(), tensor.bytes());
}
void expect_all(const Team& team, const TensorView& tensor, float value) {
  std::vector<float> values = floats(tensor.numel(), 0);
  team.device().download(values.data(), tensor.data(), tensor.bytes());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], value) << "element " << i;
}
/// Device memory that peers cannot access.
class Plain {
 public:
  Plain(const Team& team, std::int64_t count, float value)
      : buffer_(team.shared_device(), static_cast<std::size_t>(count) * sizeof(float)),
        view_(buffer_.view({count}, f32)) {
    fill(team, view_, value);
  }
  [[nodiscard]] const TensorView& view() const noexcept { return view_; }
  /// A view of its first elements.
  [[nodiscard]] TensorView view(const Dims& sizes) const { return buffer_.view(sizes, f32); }

 private:
  Buffer buffer_;
  TensorView view_;
};
SymmetricTensor symmetric_tensor(const Team& team, std::int64_t count) {
  SymmetricTensor tensor = SymmetricTensor::empty(team, {count}, f32);
  tensor.rendezvous();
  return tensor;
}
/// The result of reducing each rank's `one_of_rank`.
float sum_of_ranks(const Team& team) { return static_cast<float>(team.size() * (team.size() + 1)) / 2; }
float one_of_rank(const Team& team) { return static_cast<float>(team.rank() + 1); }

constexpr std::int64_t many = 100'000;

struct Odd {
  const char* name;
  void (*use)(World& world);
  std::optional<DeviceType> only{};
};

constexpr Odd odd_uses[] = {
    {"TheWorldGoesFirst",
     [](World& world) {
       std::optional<World> mine(std::move(world));
       const Stream stream(mine->device());
       Event event(mine->device());
       SymmetricTensor x = symmetric_tensor(mine->team(), many);
       fill(mine->team(), x.local(), one_of_rank(mine->team()));
       AllReduce plan(mine->team(), {many, f32});
       mine.reset();
       plan(x, stream);
       event.record(stream);
       plan.team().synchronize(stream);
       EXPECT_TRUE(event.query());
       expect_all(plan.team(), x.local(), sum_of_ranks(plan.team()));
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
         const Team& team = mine->world.team();
         fill(team, mine->x.local(), one_of_rank(team));
         team.barrier();
         slow(team, mine->stream);
         mine->plan(mine->x, mine->stream);
         team.synchronize(mine->stream);
         expect_all(team, mine->x.local(), sum_of_ranks(team));
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
         const Team team = mine->team();
         const Plain x(team, many, one_of_rank(team));
         tandem::all_reduce(team, x.view(), x.view(), stream);
         event.record(stream);
         team.synchronize(stream);
       }
       mine.reset();
       event.synchronize();
       stream.synchronize();
       EXPECT_TRUE(stream.query());
       stream = Stream(stream.device());  // the device lives as long as one of them
     }},
    {"AStreamGoesBeforeItsWorkHasRun",
     [](World& world) {
       const Team& team = world.team();
       const Plain x(team, many, one_of_rank(team));
       AllReduce plan(team, {many, f32});
       Event done(world.device());
       {
         const Stream stream(world.device());
         slow(team, stream);
         plan(x.view(), x.view(), stream);
         done.record(stream);
       }
       done.synchronize();
       team.check();
       expect_all(team, x.view(), sum_of_ranks(team));
     }},
    {"CollectivesGoBeforeTheirWorkHasRun",
     [](World& world) {
       const Team& team = world.team();
       const Stream stream(world.device());
       const Plain x(team, many, one_of_rank(team));
       slow(team, stream);
       AllReduce(team, {many, f32})(x.view(), x.view(), stream);
       const AllReduce next(team, {8, f32});  // this frees memory that was passed to `reclaim`
       team.synchronize(stream);
       expect_all(team, x.view(), sum_of_ranks(team));
     }},
    {"LinearPlansGoBeforeTheirWorkHasRun",
     [](World& world) {
       const Team& team = world.team();
       const std::int64_t m = 8 * team.size();
       const LinearSpec spec{.m = m, .n = 24, .k = 16, .dtype = f32};
       const Plain ones(team, 1024, 1);  // enough for each operand
       const Plain out(team, 1024, -1);
       const auto in = [&](const Dims& sizes) { return ones.view(sizes); };
       const auto to = [&](const Dims& sizes) {
         fill(team, out.view(), -1);
         return out.view(sizes);
       };
       const auto check = [&](const Stream& stream, const TensorView& y, std::int64_t sum) {
         const AllReduce next(team, {8, f32});
         team.synchronize(stream);
         expect_all(team, y, static_cast<float>(sum));
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
       const Team& team = world.team();
       const Stream stream(world.device());
       AllReduce plan(team, {many, f32}, {.algorithm = "two_shot"});
       const Plain y(team, many, 0);
       for (int round = 0; round < 5; ++round) {
         {
           const SymmetricTensor x = symmetric_tensor(team, many);
           fill(team, x.local(), one_of_rank(team));
           slow(team, stream);
           plan(x, y.view(), stream);
         }
         const SymmetricTensor another = symmetric_tensor(team, many);
         team.synchronize(stream);
         expect_all(team, y.view(), sum_of_ranks(team));
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
         fill(team, x.local(), one_of_rank(team));
         if (round % team.size() == team.rank()) slow(team, stream);
         first(x, stream);
         second(x, stream);
         third(x, round % team.size(), stream);
         team.synchronize(stream);
         expect_all(team, x.local(), sum_of_ranks(team) * static_cast<float>(team.size()));
         team.barrier();  // this rank must not refill it before the others have read it
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
       fill(team, x.local(), one_of_rank(team));
       slow(team, one);
       first(x, one);
       order_after(other, one, between);
       second(x, other);
       team.synchronize(other);
       expect_all(team, x.local(), sum_of_ranks(team) * static_cast<float>(team.size()));
     }},
    {"TwoOpenRunsOfTwoPlansOnOneTensor",
     [](World& world) {
       const Team& team = world.team();
       const Stream stream(world.device());
       const SymmetricTensor x = symmetric_tensor(team, 4 * team.size());
       fill(team, x.local(), -1);
       fill(team, x.local().narrow(0, 4 * team.rank(), 4), one_of_rank(team));
       AllGather first(team, {4, f32});
       AllGather second(team, {4, f32});
       first.start(x, stream);
       second.start(x, stream);
       first.finish(stream);
       second.finish(stream);
       team.synchronize(stream);
       for (int rank = 0; rank < team.size(); ++rank) {
         expect_all(team, x.local().narrow(0, 4 * rank, 4), static_cast<float>(rank + 1));
       }
     }},
    {"APlanGoesBeforeItsGraphAndTheGraphBeforeItsWorkHasRun",
     [](World& world) {
       const Team& team = world.team();
       const Stream stream(world.device());
       const Plain x(team, many, one_of_rank(team));
       const Plain y(team, many, 0);
       for (int round = 0; round < 5; ++round) {
         fill(team, y.view(), 0);
         std::optional<AllReduce> plan(std::in_place, team, AllReduceSpec{many, f32});
         std::optional<Graph> graph(std::in_place, world.device(), stream,
                                    [&] { (*plan)(x.view(), y.view(), stream); });
         plan.reset();
         const AllReduce another(team, {many, f32});
         slow(team, stream);
         graph->launch(stream);
         graph.reset();
         const AllReduce next(team, {8, f32});
         team.synchronize(stream);
         expect_all(team, y.view(), sum_of_ranks(team));
       }
     },
     DeviceType::cuda},
    {"AGraphGoesAfterItsStreamAndItsTensorAfterBoth",
     [](World& world) {
       const Team& team = world.team();
       Event done(world.device());
       SymmetricTensor x = symmetric_tensor(team, many);
       fill(team, x.local(), one_of_rank(team));
       AllReduce plan(team, {many, f32}, {.algorithm = "two_shot"});
       {
         std::optional<Stream> stream(std::in_place, world.device());
         const Graph graph(world.device(), *stream, [&] { plan(x, *stream); });
         slow(team, *stream);
         graph.launch(*stream);
         done.record(*stream);
         stream.reset();
       }
       done.synchronize();
       team.check();
       expect_all(team, x.local(), sum_of_ranks(team));
       team.barrier();
     },
     DeviceType::cuda},
};

struct Case {
  DeviceType device;
  const Odd* odd;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.odd->name; }

class OddUse : public ::testing::TestWithParam<Case> {};

TEST_P(OddUse, IsRight) {
  const auto [device, odd] = GetParam();
  if (const std::string reason = testing::why_no_ranks_on(device); !reason.empty()) GTEST_SKIP() << reason;
  // Starting ranks on CUDA takes seconds.
  for (const int ranks : device == DeviceType::host ? std::vector<int>{1, 2, 3} : std::vector<int>{3}) {
    testing::run_ranks(ranks, odd->use, {.device = device, .limit = std::chrono::seconds(60)});
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DeviceType device : {DeviceType::host, DeviceType::cuda}) {
    for (const Odd& odd : odd_uses) {
      if (odd.only.value_or(device) == device) all.push_back({device, &odd});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Table, OddUse, ::testing::ValuesIn(cases()), [](const auto& each) {
  return std::string(name(each.param.device)) + "_" + each.param.odd->name;
});

}  // namespace
}  // namespace tandem

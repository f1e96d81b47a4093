// SPDX-License-Identifier: Apache-2.0
#include "wrong_use/rows.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "tandem/base/env.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

namespace tandem::wrong_use {
namespace {

std::vector<float>& memory() {
  static std::vector<float> floats(4096);
  return floats;
}
TensorView view(const Dims& sizes, DType dtype = f32) { return {memory().data(), sizes, dtype}; }
Stream stream_of(const World& world) { return Stream(world.device()); }

/// A variable of this process's environment, for as long as the object lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

Wrong alone(const std::function<void()>& wrong) { return wrong; }
Wrong variable(const char* name, const char* value) {
  return alone([=] {
    static_cast<void>(Env::from([=](const std::string& asked) -> std::optional<std::string> {
      return asked == name ? std::optional<std::string>(value) : std::nullopt;
    }));
  });
}
Wrong launcher(const std::map<std::string, std::string>& variables) {
  return alone([=] {
    static_cast<void>(Launch::detect([&](const std::string& asked) -> std::optional<std::string> {
      const auto found = variables.find(asked);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    }));
  });
}
template <typename Plan, typename... Arguments> Wrong linear(const LinearSpec& spec, const Arguments&... arguments) {
  return [=](World& world) { const Plan plan(world.team(), spec, arguments...); };
}
Wrong all_gather_linear(const std::function<void(AllGatherLinear&, StreamRef)>& use) {
  return [use](World& world) {
    AllGatherLinear plan(world.team(), {.m = 8, .n = 3, .k = 5});
    use(plan, stream_of(world));
  };
}
Wrong all_reduce(const std::function<void(AllReduce&, StreamRef)>& use) {
  return [use](World& world) {
    AllReduce plan(world.team(), {8, f32});
    use(plan, stream_of(world));
  };
}
/// `use` between the start and the end of a run.
Wrong while_open(const std::function<void(AllGather&, const SymmetricTensor&, StreamRef)>& use) {
  return [use](World& world) {
    SymmetricTensor x = SymmetricTensor::empty(world.team(), {8}, f32);
    x.rendezvous();
    AllGather plan(world.team(), {4, f32});
    const Stream stream = stream_of(world);
    plan.start(x, stream);
    try {
      use(plan, x, stream);
    } catch (...) {
      plan.finish(stream);
      throw;
    }
  };
}
template <typename Plan, typename... Arguments>
Wrong moved_from(const std::function<void(Plan&, StreamRef)>& use, const Arguments&... arguments) {
  return [=](World& world) {
    Plan plan(world.team(), {.m = 8, .n = 3, .k = 5}, arguments...);
    const Plan moved = std::move(plan);
    use(plan, stream_of(world));  // NOLINT(bugprone-use-after-move)
  };
}

}  // namespace

const std::vector<Row>& rows() {
  static const std::vector<Row> table{
      // Names and values
      {"UnknownDType", 0, alone([] { static_cast<void>(parse_dtype("fp32")); }), {"'fp32' is not known", "f32, f16"}},
      {"TooManyDimensions", 0, alone([] { const Dims dims{1, 1, 1, 1, 1, 1, 1, 1, 1}; }), {"9 dimensions", "at most"}},
      {"NegativeExtent", 0, alone([] { static_cast<void>(Dims{2, -3}.numel()); }), {"[2, -3]", "negative"}},
      {"TooManyElements", 0, alone([] { static_cast<void>(Dims{1LL << 40, 1LL << 40}.numel()); }), {"2^63"}},
      {"NullTensor", 0, alone([] { const TensorView x(nullptr, {4}, f32); }), {"null pointer", "[4]"}},
      {"StridesOfAnotherLength", 0, alone([] { const TensorView x(memory().data(), {4, 2}, {1}, f32); }), {"differ"}},
      {"NarrowedTooFar", 0, alone([] { static_cast<void>(view({4}).narrow(0, 3, 2)); }), {"dimension 0", "[4]"}},
      {"ReshapedToOtherSize", 0, alone([] { static_cast<void>(view({4}).reshaped({5})); }), {"[4]", "[5]"}},
      {"MalformedLink", 0, alone([] { static_cast<void>(parse_link("20us")); }), {"'20us'", "LATENCY,BANDWIDTH"}},
      // The environment
      {"EnvLog", 0, variable("TANDEM_LOG", "loud"), {"TANDEM_LOG is 'loud'", "none, error, warn"}},
      {"EnvTimeout", 0, variable("TANDEM_TIMEOUT", "soon"), {"TANDEM_TIMEOUT is 'soon'", "ms, s, m or h"}},
      {"EnvTimeoutTooShort", 0, variable("TANDEM_TIMEOUT", "0"), {"TANDEM_TIMEOUT is '0'", "from 1ms"}},
      {"EnvDevice", 0, variable("TANDEM_DEVICE", "gpu"), {"TANDEM_DEVICE is 'gpu'", "auto, host, cuda"}},
      {"EnvLink", 0, variable("TANDEM_LINK", "fast"), {"'fast'", "LATENCY,BANDWIDTH"}},
      {"EnvGemm", 0, variable("TANDEM_GEMM", "mkl"), {"TANDEM_GEMM is 'mkl'", "auto, onednn, builtin"}},
      {"EnvUnknown",
       0,
       alone([] {
         const Variable unknown("TANDEM_TIME_OUT", "5");
         static_cast<void>(Env::from_process());
       }),
       {"TANDEM_TIME_OUT", "no such variable", "TANDEM_TIMEOUT"}},
      {"LaunchRank",
       0,
       launcher({{"TANDEM_RANK", "2"}, {"TANDEM_WORLD_SIZE", "2"}, {"TANDEM_JOB", "j"}}),
       {"TANDEM_RANK is '2'", "from 0 to 1", "tandem run"}},
      {"LaunchSize",
       0,
       launcher({{"TANDEM_RANK", "0"}, {"TANDEM_WORLD_SIZE", "two"}, {"TANDEM_JOB", "j"}}),
       {"TANDEM_WORLD_SIZE is 'two'", "whole number"}},
      {"LaunchIncomplete", 0, launcher({{"TANDEM_RANK", "0"}}), {"is not set", "tandem run"}},
      {"LaunchGiven",
       0,
       alone([] {
         static_cast<void>(init({.launch = Launch{3, 2, 0, 1, 1, "wrong.use", "tests"}, .env = Env{}, .device = {}}));
       }),
       {"rank 3 in a world of 2"}},
      {"SeveralNodes",
       0,
       alone([] {
         static_cast<void>(init({.launch = Launch{0, 2, 0, 1, 2, "wrong.use", "tests"}, .env = Env{}, .device = {}}));
       }),
       {"2 nodes", "one node"},
       Kind::unsupported},
      // Worlds and teams
      {"InitTwice",
       1,
       [](World& world) {
         static_cast<void>(init({.launch = world.launch(), .env = Env{}, .device = DeviceId{DeviceType::host, 0}}));
       },
       {"while a world of job", "rank {rank}"}},
      {"TeamOfStrangers", 2, [](World& world) { static_cast<void>(world.team({0, 2})); }, {"rank 2", "0 to 1"}},
      {"TeamOfTwins", 2, [](World& world) { static_cast<void>(world.team({1, 1})); }, {"rank 1", "twice"}},
      {"RankOutsideOfTeam",
       2,
       [](World& world) { static_cast<void>(world.team().world_rank(2)); },
       {"rank 2", "0 to 1"}},
      {"EmptyTeamUsed", 1, [](World&) { Team().barrier(); }, {"empty", "not one of its members"}},
      {"DifferentCalls",
       2,
       [](World& world) { static_cast<void>(world.team().exchange(world.rank() == 0 ? "left" : "right", {})); },
       {"different calls", "'left'", "'right'"}},
      {"DifferentArguments",
       2,
       [](World& world) { world.team().agree("size", world.rank() == 0 ? "4" : "5"); },
       {"'size'", "'4'", "'5'"}},
      {"TimeoutOfNothing",
       1,
       [](World& world) { world.team().set_timeout(std::chrono::milliseconds(0)); },
       {"0 ms", "1 ms to 365 days", "rank 0"}},
      {"TimeoutWithoutEnd",
       1,
       [](World& world) { world.team().set_timeout(std::chrono::milliseconds::max()); },
       {"9223372036854775807 ms", "1 ms to 365 days", "rank 0"}},
      // Memory
      {"UnknownBackend",
       1,
       [](World& world) { static_cast<void>(SymmetricMemory::allocate(world.team(), 64, {.backend = "rdma"})); },
       {"'rdma' is not known", "host"}},
      {"NoChannels",
       1,
       [](World& world) { static_cast<void>(SymmetricMemory::allocate(world.team(), 64, {.channels = 0})); },
       {"0 channels", "1 to 4096", "rank {rank}"}},
      {"DifferentSizes",
       2,
       [](World& world) { SymmetricTensor::empty(world.team(), {4 + world.rank()}, f32).rendezvous(); },
       {"rank 0 (", "has f32[4]", "has f32[5]"}},
      {"DifferentDTypes",
       2,
       [](World& world) { SymmetricTensor::empty(world.team(), {4}, world.rank() == 0 ? f32 : i32).rendezvous(); },
       {"rank 0 (", "has f32[4]", "has i32[4]"}},
      {"NoRendezvous",
       1,
       [](World& world) { static_cast<void>(SymmetricTensor::empty(world.team(), {4}, f32).remote(0)); },
       {"before its rendezvous", "rank {rank}"}},
      {"RendezvousTwice",
       2,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {4}, f32);
         x.rendezvous();
         x.rendezvous();
       },
       {"rendezvous was called twice", "rank {rank}"}},
      {"RemoteOfStranger",
       2,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {4}, f32);
         x.rendezvous();
         static_cast<void>(x.remote(2));
       },
       {"rank 2", "on rank {rank} of a team of 2"}},
      {"SignalOfStranger",
       2,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {4}, f32);
         x.rendezvous();
         x.signal_pad().put_signal(stream_of(world), -1, 0);
       },
       {"rank -1", "team of 2"}},
      {"SignalChannel",
       2,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {4}, f32);
         x.rendezvous();
         x.signal_pad().put_signal(stream_of(world), 0, 16);
       },
       {"channel 16", "0 to 15"}},
      {"BarrierChannel",
       1,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {4}, f32);
         x.rendezvous();
         x.signal_pad().barrier(stream_of(world), 99);
       },
       {"channel 99", "rank {rank}", "0 to 15"}},
      {"PadNeverMade", 1, [](World& world) { SignalPad().barrier(stream_of(world), 0); }, {"never made", "rendezvous"}},
      {"ContiguousFromTheMiddle",
       2,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {8}, f32);
         auto* begin = x.local().data_as<float>() + (world.rank() == 1 ? 4 : 0);
         SymmetricTensor part = SymmetricTensor::wrap(world.team(), begin, {4}, f32);
         part.rendezvous();
         static_cast<void>(part.contiguous_view());
       },
       {"on rank {rank}", "rank 1's begins 16 bytes", "wraps from"},
       Kind::unsupported},
      {"WrappedMalloc",
       1,
       [](World& world) { static_cast<void>(SymmetricMemory::wrap(world.team(), memory().data(), 64)); },
       {"64 bytes", "SymmetricTensor::empty"},
       Kind::unsupported},
      {"WrappedMisaligned",
       1,
       [](World& world) {
         auto* bytes = reinterpret_cast<std::byte*>(memory().data());
         static_cast<void>(SymmetricTensor::wrap(world.team(), bytes + 1, {4}, f32));
       },
       {"alignment is 4", "rank {rank}"}},
      {"NeverMade", 0, alone([] { static_cast<void>(SymmetricMemory().bytes()); }), {"never made"}},
      // Collectives
      {"CollectiveDType",
       2,
       all_reduce([](AllReduce& plan, StreamRef s) { plan(view({8}, i32), view({8}), s); }),
       {"AllReduce on rank {rank} of 2", "i32[8]", "f32"}},
      {"CollectiveTooMuch",
       2,
       all_reduce([](AllReduce& plan, StreamRef s) { plan(view({9}), view({9}), s); }),
       {"AllReduce on rank {rank} of 2", "9 elements", "at most 8"}},
      {"CollectiveShape",
       2,
       all_reduce([](AllReduce& plan, StreamRef s) { plan(view({8}), view({7}), s); }),
       {"AllReduce on rank {rank} of 2", "7 elements", "8 are needed"}},
      {"CollectiveStrided",
       2,
       all_reduce([](AllReduce& plan, StreamRef s) { plan(TensorView(memory().data(), {8}, {2}, f32), view({8}), s); }),
       {"AllReduce on rank {rank} of 2", "strides [2]", "dense"}},
      {"CollectiveElsewhere",
       2,
       all_reduce([](AllReduce& plan, StreamRef s) {
         plan(TensorView(memory().data(), {8}, f32, {DeviceType::cuda, 0}), view({8}), s);
       }),
       {"AllReduce on rank {rank} of 2", "cuda:0", "this rank's device is host"}},
      {"CollectiveOtherTeam",
       2,
       [](World& world) {
         const Team other = world.team({1, 0});
         SymmetricTensor x = SymmetricTensor::empty(other, {8}, f32);
         x.rendezvous();
         AllReduce plan(world.team(), {8, f32});
         plan(x, stream_of(world));
       },
       {"AllReduce on rank {rank} of 2", "of team", "this plan is of team"}},
      {"CollectiveNoRendezvous",
       2,
       [](World& world) {
         const SymmetricTensor x = SymmetricTensor::empty(world.team(), {8}, f32);
         AllReduce plan(world.team(), {8, f32});
         plan(x, stream_of(world));
       },
       {"had no rendezvous", "rank {rank}"}},
      {"CollectiveAlgorithm",
       2,
       [](World& world) { AllGather(world.team(), {8, f32}, {.algorithm = "ring"}); },
       {"AllGather on rank {rank} of 2", "'ring' is not known", "auto, push, pull"}},
      {"CollectivePieces",
       2,
       [](World& world) { AllGather(world.team(), {8, f32}, {.piece_bytes = ~std::size_t{0}}); },
       {"pieces of 18446744073709551615 bytes", "0 to 281474976710656", "rank {rank}"}},
      {"CollectiveUnsummable",
       2,
       [](World& world) { ReduceScatter(world.team(), {8, u8}); },
       {"ReduceScatter on rank {rank} of 2", "u8 cannot be summed", "f32, f16, bf16"}},
      {"CollectiveNegative", 2, [](World& world) { AllGather(world.team(), {-1, f32}); }, {"-1", "rank {rank}"}},
      {"CollectiveRoot",
       2,
       [](World& world) {
         Broadcast plan(world.team(), {8, f32});
         plan(view({8}), 2, stream_of(world));
       },
       {"Broadcast on rank {rank} of 2", "root 2", "0 to 1"}},
      {"CollectiveCounts",
       2,
       [](World& world) {
         AllToAll plan(world.team(), {8, f32});
         plan(view({8}), view({8}), std::vector<std::int64_t>{1, 2, 3}, stream_of(world));
       },
       {"AllToAll on rank {rank} of 2", "3 counts", "2 ranks need 4"}},
      {"CollectiveWithoutStaging",
       2,
       [](World& world) {
         AllReduce plan(world.team(), {8, f32}, {.staging = false});
         plan(view({8}), view({8}), stream_of(world));
       },
       {"AllReduce on rank {rank} of 2", "without staging", "symmetric tensors only"}},
      {"DifferentPlans",
       2,
       [](World& world) {
         if (world.rank() == 0) {
           AllReduce(world.team(), {8, f32});
         } else {
           AllGather(world.team(), {8, f32});
         }
       },
       {"rank {rank}", "AllReduce", "AllGather"}},
      {"PlansOfDifferentSizes",
       2,
       [](World& world) { AllReduce(world.team(), {8 + world.rank(), f32}); },
       {"rank {rank}", "AllReduce", "8", "9"}},
      {"PlanMovedFrom",
       2,
       [](World& world) {
         AllReduce plan(world.team(), {8, f32});
         const AllReduce moved = std::move(plan);
         plan(view({8}), view({8}), stream_of(world));  // NOLINT(bugprone-use-after-move)
       },
       {"team is empty"}},
      {"AllGatherLinearMovedFrom",
       2,
       moved_from<AllGatherLinear>(
           [](AllGatherLinear& plan, StreamRef s) { plan(view({4, 5}), view({3, 5}), view({8, 3}), s); }),
       {"team is empty"}},
      {"GatheredOfMovedFrom",
       2,
       moved_from<AllGatherLinear>([](AllGatherLinear& plan, StreamRef) { static_cast<void>(plan.gathered()); },
                                   LinearOptions{.keep_gathered = true}),
       {"team is empty"}},
      {"LinearReduceScatterMovedFrom",
       2,
       moved_from<LinearReduceScatter>(
           [](LinearReduceScatter& plan, StreamRef s) { plan(view({8, 5}), view({3, 5}), view({4, 3}), s); }),
       {"team is empty"}},
      {"LinearAllReduceMovedFrom",
       2,
       moved_from<LinearAllReduce>(
           [](LinearAllReduce& plan, StreamRef s) { plan(view({8, 5}), view({3, 5}), view({8, 3}), s); }),
       {"team is empty"}},
      {"LinearWeightGradientMovedFrom",
       2,
       moved_from<LinearWeightGradient>(
           [](LinearWeightGradient& plan, StreamRef s) { plan(view({8, 3}), view({4, 5}), view({3, 5}), s); },
           GatheredOperand::x),
       {"team is empty"}},
      {"PlanOfEmptyTeam", 1, [](World&) { AllReduce(Team(), {8, f32}); }, {"not one of its members"}},
      {"TwoRunsOnOneTensor",
       2,
       while_open([](AllGather& plan, const SymmetricTensor& x, StreamRef s) { plan.start(x, s); }),
       {"AllGather on rank {rank}", "another one is open", "finish()"}},
      {"PlainRunWhileOneIsOpen",
       2,
       while_open([](AllGather& plan, const SymmetricTensor&, StreamRef s) { plan(view({4}), view({8}), s); }),
       {"AllGather on rank {rank}", "another one is open", "finish()"}},
      {"SymmetricRunWhileOneIsOpen",
       2,
       while_open([](AllGather& plan, const SymmetricTensor& x, StreamRef s) { plan(x, s); }),
       {"AllGather on rank {rank}", "another one is open", "finish()"}},
      {"FinishedBeforeStart",
       1,
       [](World& world) {
         AllGather plan(world.team(), {4, f32});
         plan.finish(stream_of(world));
       },
       {"AllGather on rank {rank}", "without start()"}},
      // Linear layers
      {"LinearDType",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5, .dtype = i32}),
       {"AllGatherLinear on rank {rank}", "i32", "f32, bf16 or f16"},
       Kind::unsupported},
      {"LinearNegative", 2, linear<LinearReduceScatter>({.m = 8, .n = -3, .k = 5}), {"n=-3", "rank {rank}"}},
      {"LinearTooLarge",
       2,
       linear<LinearWeightGradient>({.m = std::int64_t{1} << 40, .n = 3, .k = 1024}, GatheredOperand::x),
       {"LinearWeightGradient on rank {rank}", "m=1099511627776", "281474976710656 elements"}},
      {"LinearTooManyRows",
       2,
       linear<LinearAllReduce>({.m = std::numeric_limits<std::int64_t>::max(), .n = 0, .k = 0}),
       {"LinearAllReduce on rank {rank}", "m=9223372036854775807", "281474976710656 elements"}},
      {"LinearAlgorithm",
       2,
       linear<LinearAllReduce>({.m = 8, .n = 3, .k = 5}, LinearOptions{.algorithm = "fused"}),
       {"LinearAllReduce on rank {rank} of 2", "'fused' is not known", "auto, pipeline, direct, sequence"}},
      {"LinearGroups",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5}, LinearOptions{.groups = 9}),
       {"AllGatherLinear on rank {rank} of 2", "9 groups", "1 to 8"}},
      {"LinearGroupsOfSequence",
       3,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5}, LinearOptions{.algorithm = "sequence", .groups = 2}),
       {"AllGatherLinear on rank {rank} of 3", "2 groups", "'sequence', which has none", "'pipeline'"}},
      {"LinearSmsOfASum",
       2,
       linear<LinearReduceScatter>({.m = 8, .n = 3, .k = 5}, LinearOptions{.sms = 0}),
       {"LinearReduceScatter on rank {rank} of 2", "0 SMs", "1 and more", "sums need 1"}},
      {"LinearSmsOfAGather",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5}, LinearOptions{.sms = -1}),
       {"AllGatherLinear on rank {rank} of 2", "-1 SMs", "0 and more"}},
      {"LinearDifferentSpecs",
       2,
       [](World& world) { const LinearReduceScatter plan(world.team(), {.m = 8 + world.rank(), .n = 3, .k = 5}); },
       {"rank {rank}", "LinearReduceScatter", "m=8", "m=9"}},
      {"LinearTooManyTokens",
       2,
       all_gather_linear(
           [](AllGatherLinear& plan, StreamRef s) { plan(view({5, 5}), view({3, 5}), view({10, 3}), s); }),
       {"AllGatherLinear on rank {rank} of 2", "10 tokens", "at most 8"}},
      {"LinearShard",
       2,
       all_gather_linear([](AllGatherLinear& plan, StreamRef s) { plan(view({8, 5}), view({3, 5}), view({8, 3}), s); }),
       {"AllGatherLinear on rank {rank} of 2", "x is f32[8, 5]", "[4, 5] are needed"}},
      {"LinearWeight",
       2,
       all_gather_linear([](AllGatherLinear& plan, StreamRef s) { plan(view({4, 5}), view({5, 3}), view({8, 3}), s); }),
       {"AllGatherLinear on rank {rank} of 2", "weight is f32[5, 3]", "[3, 5] are needed"}},
      {"LinearUnexpectedBias",
       2,
       all_gather_linear(
           [](AllGatherLinear& plan, StreamRef s) { plan(view({4, 5}), view({3, 5}), view({3}), view({8, 3}), s); }),
       {"AllGatherLinear on rank {rank} of 2", "bias", "without LinearSpec::bias"}},
      {"LinearUnexpectedAuxiliary",
       2,
       all_gather_linear([](AllGatherLinear& plan, StreamRef s) {
         plan(view({4, 5}), view({3, 5}), TensorView(), view({8, 3}), view({8, 3}), s);
       }),
       {"AllGatherLinear on rank {rank} of 2", "auxiliary of sizes [8, 3]", "without LinearSpec::auxiliary"}},
      {"LinearMissingAuxiliary",
       2,
       [](World& world) {
         AllGatherLinear plan(
             world.team(),
             {.m = 8, .n = 3, .k = 5, .activation = Activation::gelu_erf, .auxiliary = Auxiliary::gradient});
         plan(view({4, 5}), view({3, 5}), view({8, 3}), stream_of(world));
       },
       {"AllGatherLinear on rank {rank}", "aux", "[8, 3] are needed"}},
      {"LinearAuxiliaryOfNothing",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5, .auxiliary = Auxiliary::output}),
       {"AllGatherLinear on rank {rank}", "auxiliary output", "gelu_erf, gelu_tanh"}},
      {"LinearAuxiliaryOfASum",
       2,
       linear<LinearReduceScatter>(
           {.m = 8, .n = 3, .k = 5, .activation = Activation::gelu_erf, .auxiliary = Auxiliary::output}),
       {"LinearReduceScatter on rank {rank}", "auxiliary output", "only AllGatherLinear"},
       Kind::unsupported},
      {"LinearGatheredNotKept",
       2,
       all_gather_linear([](AllGatherLinear& plan, StreamRef) { static_cast<void>(plan.gathered()); }),
       {"AllGatherLinear on rank {rank} of 2", "gathered()", "keep_gathered"}},
      {"ReduceScatterKeepsNothing",
       2,
       linear<LinearReduceScatter>({.m = 8, .n = 3, .k = 5}, LinearOptions{.keep_gathered = true}),
       {"LinearReduceScatter on rank {rank}", "keep_gathered", "only AllGatherLinear"}},
      {"AllReduceKeepsNothing",
       2,
       linear<LinearAllReduce>({.m = 8, .n = 3, .k = 5}, LinearOptions{.keep_gathered = true}),
       {"LinearAllReduce on rank {rank}", "keep_gathered", "only AllGatherLinear"}},
      {"GradientKeepsNothing",
       2,
       linear<LinearWeightGradient>({.m = 8, .n = 3, .k = 5}, GatheredOperand::x, LinearOptions{.keep_gathered = true}),
       {"LinearWeightGradient on rank {rank}", "keep_gathered", "only AllGatherLinear"}},
      {"GradientWithBias",
       2,
       linear<LinearWeightGradient>({.m = 8, .n = 3, .k = 5, .bias = true}, GatheredOperand::x),
       {"LinearWeightGradient on rank {rank}", "bias"},
       Kind::unsupported},
  };
  return table;
}

}  // namespace tandem::wrong_use

// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "wrong_use/rows.hpp"
#include "wrong_use/support.hpp"

namespace tandem::wrong_use {
namespace {

template <typename Plan, typename... Arguments> Wrong linear(const LinearSpec& spec, const Arguments&... arguments) {
  return [=](World& world) { const Plan plan(world.team(), spec, arguments...); };
}
Wrong all_gather_linear(const std::function<void(AllGatherLinear&, StreamRef)>& use) {
  return [use](World& world) {
    AllGatherLinear plan(world.team(), {.m = 8, .n = 3, .k = 5});
    use(plan, stream_of(world));
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

const std::vector<Row>& linear_rows() {
  static const std::vector<Row> table{
      {"LinearDType",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5, .dtype = i32}),
       {"AllGatherLinear on rank {rank}", "i32", "f32, bf16, f16, f8e4m3 and f8e5m2"},
       Kind::unsupported},
      {"LinearNegative", 2, linear<LinearReduceScatter>({.m = 8, .n = -3, .k = 5}), {"n=-3", "rank {rank}"}},
      {"LinearNegativeOnOneRank",
       2,
       [](World& world) { AllGatherLinear(world.team(), {.m = 8, .n = world.rank() == 1 ? -3 : 3, .k = 5}); },
       {"AllGatherLinear", "rank {rank}", "n=-3", "each rank's own"}},
      {"LinearTooLarge",
       2,
       linear<LinearWeightGradient>({.m = std::int64_t{1} << 40, .n = 3, .k = 1024}, GatheredOperand::x),
       {"LinearWeightGradient on rank {rank}", "m=1099511627776", "281474976710656 elements"}},
      {"LinearTooManyRows",
       2,
       linear<LinearAllReduce>({.m = std::numeric_limits<std::int64_t>::max(), .n = 0, .k = 0}),
       {"LinearAllReduce on rank {rank}", "m=9223372036854775807", "281474976710656 elements"}},
      {"LinearLayoutNumber",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5, .x_layout = static_cast<Layout>(9)}),
       {"AllGatherLinear on rank {rank}", "x_layout number 9 is not known; known: 0 to 1"}},
      {"LinearActivationNumber",
       2,
       linear<LinearReduceScatter>({.m = 8, .n = 3, .k = 5, .activation = static_cast<Activation>(77)}),
       {"LinearReduceScatter on rank {rank}", "activation number 77 is not known; known: 0 to 2"}},
      {"LinearAuxiliaryNumber",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5, .auxiliary = static_cast<Auxiliary>(3)}),
       {"AllGatherLinear on rank {rank}", "auxiliary number 3 is not known; known: 0 to 2"}},
      {"LinearGatheredOperandNumber",
       2,
       linear<LinearWeightGradient>({.m = 8, .n = 3, .k = 5}, static_cast<GatheredOperand>(2)),
       {"LinearWeightGradient on rank {rank}", "the gathered operand number 2 is not known; known: 0 to 1"}},
      {"LinearScalingNumber",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5, .dtype = f8e4m3, .scaling = static_cast<Scaling>(3)}),
       {"AllGatherLinear on rank {rank}", "scaling number 3 is not known; known: 0 to 2"}},
      {"LinearScalingOfF32",
       2,
       linear<LinearReduceScatter>({.m = 8, .n = 3, .k = 5, .scaling = Scaling::per_row}),
       {"LinearReduceScatter on rank {rank}", "f32 with scaling per_row", "f8e4m3 and f8e5m2"}},
      {"LinearWeightDType",
       2,
       linear<LinearAllReduce>({.m = 8, .n = 3, .k = 5, .dtype = f8e4m3, .weight_dtype = bf16}),
       {"LinearAllReduce on rank {rank}", "f8e4m3 by bf16", "f8e4m3 or f8e5m2"}},
      {"LinearOutDType",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5, .dtype = bf16, .out_dtype = f32}),
       {"AllGatherLinear on rank {rank}", "a y of f32", "dtype bf16", "allowed: bf16"}},
      {"GradientDType8",
       2,
       linear<LinearWeightGradient>({.m = 8, .n = 3, .k = 5, .dtype = f8e5m2}, GatheredOperand::x),
       {"LinearWeightGradient on rank {rank}", "f8e5m2", "f32, bf16 and f16"},
       Kind::unsupported},
      {"LinearDifferentScalings",
       2,
       [](World& world) {
         const Scaling scaling = world.rank() == 0 ? Scaling::per_tensor : Scaling::per_row;
         AllGatherLinear(world.team(), {.m = 8, .n = 3, .k = 5, .dtype = f8e4m3, .scaling = scaling});
       },
       {"AllGatherLinear", "scaled per_tensor", "scaled per_row", "rank {rank}"}},
      {"LinearOutputOf8Bits",
       2,
       [](World& world) {
         AllGatherLinear plan(world.team(), {.m = 8, .n = 3, .k = 5, .dtype = f8e4m3});
         const TensorView x(memory().data(), {4, 5}, f8e4m3);
         plan(x, TensorView(memory().data(), {3, 5}, f8e4m3), TensorView(memory().data() + 64, {8, 3}, f8e4m3),
              stream_of(world));
       },
       {"AllGatherLinear on rank {rank} of 2", "y is f8e4m3[8, 3]", "bf16"}},
      {"LinearScaleOfTooMany",
       2,
       [](World& world) {
         LinearReduceScatter plan(world.team(),
                                  {.m = 8, .n = 3, .k = 5, .dtype = f8e4m3, .scaling = Scaling::per_tensor});
         plan({.x = TensorView(memory().data(), {8, 5}, f8e4m3),
               .weight = TensorView(memory().data(), {3, 5}, f8e4m3),
               .x_scale = view({2}),
               .weight_scale = view({1}),
               .y = TensorView(memory().data() + 64, {4, 3}, bf16)},
              stream_of(world));
       },
       {"LinearReduceScatter on rank {rank} of 2", "x_scale is f32[2]", "per_tensor", "f32[] or f32[1]"}},
      {"LinearTwoOutputs",
       2,
       [](World& world) {
         LinearAllReduce plan(world.team(), {.m = 8, .n = 3, .k = 5});
         SymmetricTensor y = SymmetricTensor::empty(world.team(), {8, 3}, f32);
         y.rendezvous();
         plan({.x = view({8, 5}), .weight = view({3, 5}), .y = view({8, 3})}, y, stream_of(world));
       },
       {"LinearAllReduce on rank {rank} of 2", "two outputs", "LinearOperands::y; allowed: one"}},
      {"LinearMissingScale",
       2,
       [](World& world) {
         AllGatherLinear plan(world.team(), {.m = 8, .n = 3, .k = 5, .dtype = f8e4m3, .scaling = Scaling::per_row});
         const TensorView x(memory().data(), {4, 5}, f8e4m3);
         const TensorView weight(memory().data(), {3, 5}, f8e4m3);
         plan(x, weight, TensorView(memory().data() + 64, {8, 3}, bf16), stream_of(world));
       },
       {"AllGatherLinear on rank {rank} of 2", "no x_scale", "per_row", "f32[4] is needed"}},
      {"LinearUnexpectedScale",
       2,
       all_gather_linear([](AllGatherLinear& plan, StreamRef s) {
         plan({.x = view({4, 5}), .weight = view({3, 5}), .x_scale = view({1}), .y = view({8, 3})}, s);
       }),
       {"AllGatherLinear on rank {rank} of 2", "x_scale", "without LinearSpec::scaling"}},
      {"LinearAlgorithm",
       2,
       linear<LinearAllReduce>({.m = 8, .n = 3, .k = 5}, LinearOptions{.algorithm = "fused"}),
       {"LinearAllReduce on rank {rank} of 2", "'fused' is not known",
        "auto, pipeline, stepwise, growing, shrinking, direct, sequence"}},
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
       {"LinearReduceScatter on rank {rank} of 2", "sms is 0", "1 or more", "sums need 1"}},
      {"LinearSmsOfAGather",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5}, LinearOptions{.sms = -1}),
       {"AllGatherLinear on rank {rank} of 2", "sms is -1", "0 or more"}},
      {"LinearLeavesFewerThanNoSms",
       2,
       linear<AllGatherLinear>({.m = 8, .n = 3, .k = 5}, LinearOptions{.leave_sms = -1}),
       {"AllGatherLinear on rank {rank} of 2", "leave_sms is -1", "0 or more"}},
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
      {"LinearOutputOnWeight",
       2,
       all_gather_linear([](AllGatherLinear& plan, StreamRef s) {
         const TensorView x(memory().data() + 64, {4, 5}, f32);
         plan(x, view({3, 5}), TensorView(memory().data() + 8, {8, 3}, f32), s);
       }),
       {"AllGatherLinear on rank {rank} of 2", "y, 96 bytes at", "and weight, 60 bytes at", "share memory"}},
      {"GradientOnItsOperand",
       2,
       [](World& world) {
         LinearWeightGradient plan(world.team(), {.m = 8, .n = 3, .k = 5}, GatheredOperand::x);
         const TensorView x(memory().data() + 64, {4, 5}, f32);
         plan(view({8, 3}), x, view({3, 5}), stream_of(world));
       },
       {"LinearWeightGradient on rank {rank} of 2", "dw, 60 bytes at", "and dy, 96 bytes at", "share memory"}},
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
      {"ReduceScatterHasNoSteps",
       2,
       linear<LinearReduceScatter>({.m = 8, .n = 3, .k = 5}, LinearOptions{.algorithm = "stepwise"}),
       {"LinearReduceScatter on rank {rank}", "'stepwise' is not known", "auto, pipeline, direct, sequence"}},
      {"DirectHasNoGroups",
       2,
       linear<LinearAllReduce>({.m = 8, .n = 3, .k = 5}, LinearOptions{.algorithm = "direct", .groups = 2}),
       {"LinearAllReduce on rank {rank}", "2 groups", "'direct', which has none",
        "'pipeline', 'stepwise', 'growing' and 'shrinking'"}},
      {"GradientKeepsNothing",
       2,
       linear<LinearWeightGradient>({.m = 8, .n = 3, .k = 5}, GatheredOperand::x, LinearOptions{.keep_gathered = true}),
       {"LinearWeightGradient on rank {rank}", "keep_gathered", "only AllGatherLinear"}},
      {"GradientWithBias",
       2,
       linear<LinearWeightGradient>({.m = 8, .n = 3, .k = 5, .bias = true}, GatheredOperand::x),
       {"LinearWeightGradient on rank {rank}", "bias"},
       Kind::unsupported},
      {"AllGatherLinearMovedFrom",
       2,
       moved_from<AllGatherLinear>(
           [](AllGatherLinear& plan, StreamRef s) { plan(view({4, 5}), view({3, 5}), view({8, 3}), s); }),
       {"moved from"}},
      {"GatheredOfMovedFrom",
       2,
       moved_from<AllGatherLinear>([](AllGatherLinear& plan, StreamRef) { static_cast<void>(plan.gathered()); },
                                   LinearOptions{.keep_gathered = true}),
       {"moved from"}},
      {"LinearReduceScatterMovedFrom",
       2,
       moved_from<LinearReduceScatter>(
           [](LinearReduceScatter& plan, StreamRef s) { plan(view({8, 5}), view({3, 5}), view({4, 3}), s); }),
       {"moved from"}},
      {"LinearOutputWithoutRendezvous",
       2,
       [](World& world) {
         LinearAllReduce plan(world.team(), {.m = 8, .n = 3, .k = 5});
         plan(view({8, 5}), view({3, 5}), SymmetricTensor::empty(world.team(), {8, 3}, f32), stream_of(world));
       },
       {"LinearAllReduce on rank {rank} of 2", "y had no rendezvous"}},
      {"LinearOutputOfWrongSizes",
       2,
       [](World& world) {
         SymmetricTensor y = SymmetricTensor::empty(world.team(), {4, 3}, f32);
         y.rendezvous();
         LinearAllReduce plan(world.team(), {.m = 8, .n = 3, .k = 5});
         plan(view({8, 5}), view({3, 5}), y, stream_of(world));
       },
       {"LinearAllReduce on rank {rank} of 2", "y", "[4, 3]", "[8, 3]"}},
      {"LinearAllReduceMovedFrom",
       2,
       moved_from<LinearAllReduce>(
           [](LinearAllReduce& plan, StreamRef s) { plan(view({8, 5}), view({3, 5}), view({8, 3}), s); }),
       {"moved from"}},
      {"LinearWeightGradientMovedFrom",
       2,
       moved_from<LinearWeightGradient>(
           [](LinearWeightGradient& plan, StreamRef s) { plan(view({8, 3}), view({4, 5}), view({3, 5}), s); },
           GatheredOperand::x),
       {"moved from"}},
  };
  return table;
}

}  // namespace tandem::wrong_use

// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "wrong_use/rows.hpp"
#include "wrong_use/support.hpp"

namespace tandem::wrong_use {
namespace {

Wrong all_reduce(const std::function<void(AllReduce&, StreamRef)>& use) {
  return [use](World& world) {
    AllReduce plan(world.team(), {8, f32});
    use(plan, stream_of(world));
  };
}
/// Calls `use` between the start and the end of a run.
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

}  // namespace

const std::vector<Row>& collective_rows() {
  static const std::vector<Row> table{
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
       {"AllGather on rank {rank} of 2", "'ring' is not known", "auto, push, staged"}},
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
      {"AllToAllInPlace",
       2,
       [](World& world) {
         AllToAll plan(world.team(), {4, f32});
         plan(view({8}), view({8}), stream_of(world));
       },
       {"AllToAll on rank {rank} of 2", "input, 32 bytes at", "and out, 32 bytes at", "share memory"}},
      {"OutPartlyOnInput",
       2,
       [](World& world) {
         AllReduce plan(world.team(), {8, f32});
         plan(view({8}), TensorView(memory().data() + 4, {8}, f32), stream_of(world));
       },
       {"AllReduce on rank {rank} of 2", "input, 32 bytes at", "and out, 32 bytes at", "share memory"}},
      {"SumInAnothersPlace",
       2,
       [](World& world) {
         ReduceScatter plan(world.team(), {4, f32});
         const TensorView shard(memory().data() + 4 * (1 - world.rank()), {4}, f32);
         plan(view({8}), shard, stream_of(world));
       },
       {"ReduceScatter on rank {rank} of 2", "shard, 16 bytes at", "and input, 32 bytes at", "share memory"}},
      {"RootsOutPartlyOnInput",
       2,
       [](World& world) {
         Broadcast plan(world.team(), {8, f32});
         const TensorView out(memory().data() + 4, {8}, f32);
         plan(view({8}), out, world.rank(), stream_of(world));
       },
       {"Broadcast on rank {rank} of 2", "input, 32 bytes at", "and out, 32 bytes at", "share memory"}},
      {"ShardInAnothersPlace",
       2,
       [](World& world) {
         AllGather plan(world.team(), {4, f32});
         const TensorView shard(memory().data() + 4 * (1 - world.rank()), {4}, f32);
         plan(shard, view({8}), stream_of(world));
       },
       {"AllGather on rank {rank} of 2", "shard, 16 bytes at", "and gathered, 32 bytes at", "share memory"}},
      {"OwnShardWaitedForTwice",
       2,
       while_open([](AllGather& plan, const SymmetricTensor& x, StreamRef s) {
         plan.finish(s);
         plan.start(view({4}), x, s);
         const int me = x.team().rank();
         for (int twice = 0; twice < 2; ++twice) plan.wait_shard(me, s);
       }),
       {"AllGather on rank {rank} of 2", "the shard of rank {rank} was waited for twice"}},
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
       {"moved from"}},
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
  };
  return table;
}

}  // namespace tandem::wrong_use

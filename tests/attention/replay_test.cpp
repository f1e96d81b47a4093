// SPDX-License-Identifier: Apache-2.0
// Context-parallel attention in CUDA graphs, replayed thousands of times.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "tandem/device/device.hpp"
#include "tandem/device/graph.hpp"

#include "attention/shared_sequence.hpp"
#include "linear/tensors.hpp"
#include "support/oracle.hpp"

namespace tandem {
namespace {

using testing::SharedSequence;

class AttentionReplayStress : public testing::AttentionOnEachDevice {};

/// Sequences of different bands and splits, each with its tensors, and the results of an eager run.
struct Replayed {
  SharedSequence shared;
  const SharedSequence::Run& run;
  std::vector<testing::Bytes> expected;

  Replayed(const Team& team, const ContextParallelSpec& spec, std::uint64_t sequence)
      : shared(team, spec, sequence), run(shared.fresh()) {}

  void queue(StreamRef stream) {
    ContextParallelAttention& attention = shared.attention();
    attention.forward(run.q.view(), run.k.view(), run.v.view(), run.out.view(), run.lse.view(), stream);
    attention.backward(run.grad_out.view(), run.q.view(), run.k.view(), run.v.view(), run.out.view(), run.lse.view(),
                       run.dq.view(), run.dk.view(), run.dv.view(), stream);
  }
  [[nodiscard]] std::vector<testing::Bytes> results() const {
    return {run.out.get(), run.lse.get(), run.dq.get(), run.dk.get(), run.dv.get()};
  }
  void poison(StreamRef stream) const {
    for (const auto* const each : {&run.out, &run.lse, &run.dq, &run.dk, &run.dv}) each->poison(stream);
  }
};

TEST_P(AttentionReplayStress, BothDirectionsWithDelayedRanks) {
  const int ranks = std::clamp(device_count(GetParam()), 2, 4);
  const int replays = static_cast<int>(std::ceil(1e4 * testing::stress_scale()));
  on(ranks,
     [replays](World& world) {
       const Team& team = world.team();
       const ContextParallelSpec causal{.tokens = 120,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .head_dim = 32,
                                        .dtype = dtype(),
                                        .band = {.right = 0},
                                        .deterministic = true};
       ContextParallelSpec window = causal;
       window.band.left = 40;
       window.split = SequenceSplit::contiguous;
       std::vector<std::unique_ptr<Replayed>> all;
       all.push_back(std::make_unique<Replayed>(team, causal, 1));
       all.push_back(std::make_unique<Replayed>(team, window, 2));
       const Stream stream(world.device());
       // Captured first, and without a run before it.
       std::vector<Graph> graphs;
       for (const auto& each : all) graphs.emplace_back(world.device(), stream, [&] { each->queue(stream); });
       for (const auto& each : all) {
         each->queue(stream);
         team.synchronize(stream);
         each->expected = each->results();
       }
       const std::uint64_t delays = testing::key(testing::seed(), {3, static_cast<std::uint64_t>(world.rank())});
       for (int replay = 0; replay < replays; ++replay) {
         const auto turn = static_cast<std::uint64_t>(replay);
         const bool compared = replay % 10 == 0 || replay + 1 == replays;
         for (std::size_t i = 0; i < all.size(); ++i) {
           testing::maybe_delay(stream, testing::random_bits(delays, turn * 2 + i), 40);
           if (compared) all[i]->poison(stream);
           if (replay % 97 == 0) {
             all[i]->queue(stream);  // eager runs in between
           } else {
             graphs[i].launch(stream);
           }
         }
         if (!compared) continue;
         team.synchronize(stream);
         for (const auto& each : all) ASSERT_TRUE(each->results() == each->expected) << "replay " << replay;
       }
       for (const auto& each : all) each->shared.check();
     },
     {.limit = std::chrono::seconds(580)});
}

INSTANTIATE_TEST_SUITE_P(Device, AttentionReplayStress, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem

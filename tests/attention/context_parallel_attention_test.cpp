// SPDX-License-Identifier: Apache-2.0
#include "tandem/attention/context_parallel_attention.hpp"

#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/env.hpp"
#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "attention/shared_sequence.hpp"
#include "support/draws.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using testing::SharedSequence;

class ContextParallelAttentionTest : public testing::AttentionOnEachDevice {};

void check(const Team& team, const ContextParallelSpec& spec, std::uint64_t sequence, int runs = 3) {
  SharedSequence shared(team, spec, sequence);
  for (int run = 0; run < runs; ++run) shared.run();
  shared.check();
}

TEST_P(ContextParallelAttentionTest, IsRightAtEveryTeamSize) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      check(team, {.tokens = 96, .heads = 4, .kv_heads = 2, .head_dim = 32, .dtype = dtype(), .band = {.right = 0}}, 1);
      check(team,
            {.tokens = 80,
             .batch = 2,
             .heads = 2,
             .kv_heads = 2,
             .head_dim = 16,
             .dtype = dtype(),
             .split = SequenceSplit::contiguous},
            2);
      check(team,
            {.tokens = 77,
             .heads = 3,
             .kv_heads = 1,
             .head_dim = 24,
             .value_dim = 16,
             .dtype = dtype(),
             .band = {.right = 0}},
            3);
    });
  }
}

TEST_P(ContextParallelAttentionTest, OfEveryDtype) {
  on(3, [](World& world) {
    for (const DType each : {f32, f16, bf16}) {
      if (each == f32 && world.device().id().type == DeviceType::cuda) continue;
      for (const bool causal : {false, true}) {
        ContextParallelSpec spec{
            .tokens = 61, .batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 32, .dtype = each, .scale = 1.0F};
        if (causal) spec.band.right = 0;
        check(world.team(), spec, 10);
      }
    }
  });
}

// Bands whose blocks have offsets, of which some ranks' keys are seen by nobody; in both splits.
TEST_P(ContextParallelAttentionTest, InWindows) {
  on(4, [](World& world) {
    std::uint64_t sequence = 20;
    for (const SequenceSplit split : {SequenceSplit::zigzag, SequenceSplit::contiguous}) {
      for (const AttentionBand& band :
           {AttentionBand{.left = 9, .right = 0}, AttentionBand{.left = 30, .right = 0},
            AttentionBand{.left = 0, .right = 0}, AttentionBand{.left = 7}, AttentionBand{.left = 5, .right = 12},
            AttentionBand{.right = 3}, AttentionBand{.left = 19, .right = 0}, AttentionBand{.left = 10, .right = 1}}) {
        check(world.team(),
              {.tokens = 72, .heads = 2, .kv_heads = 1, .head_dim = 16, .dtype = dtype(), .band = band, .split = split},
              ++sequence, 2);
      }
    }
  });
}

TEST_P(ContextParallelAttentionTest, OfFewTokens) {
  on(3, [](World& world) {
    for (const std::int64_t tokens : {0, 1, 2, 3, 5, 7, 13, 14}) {
      for (const SequenceSplit split : {SequenceSplit::zigzag, SequenceSplit::contiguous}) {
        check(world.team(),
              {.tokens = tokens,
               .heads = 2,
               .kv_heads = 1,
               .head_dim = 16,
               .dtype = dtype(),
               .band = {.right = 0},
               .split = split},
              40 + static_cast<std::uint64_t>(tokens));
      }
    }
    check(world.team(), {.tokens = 20, .batch = 0, .head_dim = 16, .dtype = dtype()}, 50);
  });
}

TEST_P(ContextParallelAttentionTest, InSubTeamsInOddOrders) {
  on(5, [](World& world) {
    for (const std::vector<int>& ranks : {std::vector<int>{3, 0, 4}, {1, 2}, {4, 2, 0, 1}, {2}}) {
      if (const Team team = world.team(ranks)) {
        check(team, {.tokens = 50, .heads = 2, .kv_heads = 2, .head_dim = 16, .dtype = dtype(), .band = {.right = 0}},
              60 + ranks.size());
      }
    }
    world.team().barrier();
  });
}

// In any sequence of directions, of two plans, on two streams that only the plans order.
TEST_P(ContextParallelAttentionTest, RunsInAnyOrder) {
  on(4, [](World& world) {
    const Team& team = world.team();
    SharedSequence causal(
        team, {.tokens = 64, .heads = 2, .kv_heads = 1, .head_dim = 16, .dtype = dtype(), .band = {.right = 0}}, 70);
    SharedSequence window(team,
                          {.tokens = 45,
                           .heads = 2,
                           .kv_heads = 2,
                           .head_dim = 16,
                           .dtype = dtype(),
                           .band = {.left = 11, .right = 0},
                           .split = SequenceSplit::contiguous},
                          71);
    testing::Draws draws(72);
    for (int round = 0; round < 4; ++round) {
      if (round == 2) causal.alternate_streams();
      std::vector<const SharedSequence::Run*> open;
      for (int i = 0; i < 3; ++i) {
        open.push_back(&causal.fresh());
        causal.forward(*open.back());
        if (draws.below(2) == 0) window.run();
      }
      for (; !open.empty(); open.pop_back()) causal.backward(*open.back());
    }
    causal.check();
    window.check();
  });
}

TEST_P(ContextParallelAttentionTest, WithoutGradients) {
  on(3, [](World& world) {
    ContextParallelSpec spec{.tokens = 55,
                             .heads = 2,
                             .kv_heads = 2,
                             .head_dim = 32,
                             .dtype = dtype(),
                             .band = {.right = 0},
                             .gradients = false};
    check(world.team(), spec, 80);
    // The first rank's queries see no other rank's keys: only credits keep it from running ahead of its readers.
    spec.split = SequenceSplit::contiguous;
    check(world.team(), spec, 81, 12);
  });
}

// As large as the sequence or larger, they hide nothing: whatever they are.
TEST_P(ContextParallelAttentionTest, BoundsThatHideNothingAreNone) {
  on(3, [](World& world) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    ContextParallelSpec spec{.tokens = 40, .head_dim = 16, .dtype = dtype(), .band = {.left = most, .right = most}};
    check(world.team(), spec, 85);
    spec.band = {.left = 39, .right = 0};
    check(world.team(), spec, 86);
    const ContextParallelAttention attention(world.team(), spec);
    EXPECT_EQ(attention.describe().find("(from i - 39"), std::string::npos) << attention.describe();
  });
}

// What is queued when a plan is destroyed, or moved, completes.
TEST_P(ContextParallelAttentionTest, RunsOutliveThePlan) {
  on(3, [](World& world) {
    const ContextParallelSpec spec{
        .tokens = 66, .heads = 2, .kv_heads = 1, .head_dim = 16, .dtype = dtype(), .band = {.right = 0}};
    for (int round = 0; round < 3; ++round) {
      SharedSequence shared(world.team(), spec, 87);
      shared.run();
      {
        ContextParallelAttention moved = std::move(shared.attention());
        shared.attention() = std::move(moved);
      }
      shared.run();
      {
        const ContextParallelAttention gone = std::move(shared.attention());
      }
      shared.check();
    }
  });
}

TEST_P(ContextParallelAttentionTest, DirectionsAreComparedIfAsked) {
  Env env;
  env.check = RunCheck::runs;
  on(2,
     [](World& world) {
       SharedSequence shared(world.team(), {.tokens = 20, .head_dim = 16, .dtype = dtype()}, 88);
       shared.run();
       const SharedSequence::Run& run = shared.fresh();
       shared.forward(run);
       testing::expect_error<InvalidArgument>([&] { world.rank() == 0 ? shared.forward(run) : shared.backward(run); },
                                              {"ContextParallelAttention", "forward", "backward"});
     },
     {.env = env});
}

TEST_P(ContextParallelAttentionTest, HasTheSameBitsInEveryRunIfAsked) {
  on(4, [](World& world) {
    const ContextParallelSpec spec{.tokens = 128,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 32,
                                   .dtype = dtype(),
                                   .band = {.right = 0},
                                   .deterministic = true};
    SharedSequence shared(world.team(), spec, 90);
    const SharedSequence::Run& run = shared.fresh();
    std::vector<testing::Bytes> first;
    for (int repeat = 0; repeat < 5; ++repeat) {
      shared.forward(run);
      shared.backward(run);
      world.team().synchronize(shared.stream());
      world.device().synchronize();
      const std::vector<testing::Bytes> now{run.out.get(), run.lse.get(), run.dq.get(), run.dk.get(), run.dv.get()};
      if (repeat == 0) first = now;
      ASSERT_TRUE(now == first) << "run " << repeat;
    }
    shared.check();
  });
}

TEST_P(ContextParallelAttentionTest, SaysWhatItDoes) {
  on(4, [](World& world) {
    const ContextParallelAttention attention(
        world.team(),
        {.tokens = 64, .heads = 2, .kv_heads = 1, .head_dim = 16, .dtype = dtype(), .band = {.right = 0}});
    const std::string& text = attention.describe();
    EXPECT_NE(text.find("keys and values of 3 ranks are fetched"), std::string::npos) << text;
    EXPECT_NE(text.find("16 queries to 16 keys (from i - any to i + 0)"), std::string::npos) << text;
  });
}

TANDEM_ON_EACH_DEVICE(ContextParallelAttentionTest);

// What is sent takes longer than the blocks that are computed meanwhile: whatever is reused too early is found.
TEST(ContextParallelAttentionOnASlowLink, IsRight) {
  Env env;
  env.link = LinkOptions{std::chrono::microseconds(200), 5e6};
  testing::run_ranks(5,
                     [](World& world) {
                       const ContextParallelSpec spec{
                           .tokens = 80, .heads = 2, .kv_heads = 2, .head_dim = 32, .dtype = f32, .band = {.right = 0}};
                       check(world.team(), spec, 100, 4);
                       ContextParallelSpec window = spec;
                       window.band = {.left = 30, .right = 30};
                       window.split = SequenceSplit::contiguous;
                       check(world.team(), window, 101, 4);
                     },
                     {.env = env});
}

}  // namespace
}  // namespace tandem

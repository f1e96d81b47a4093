// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "tandem/attention/context_parallel_attention.hpp"
#include "tandem/device/device.hpp"

#include "common/over_ranks.hpp"
#include "long_sequence/collectives.hpp"
#include "long_sequence/local_blocks.hpp"
#include "long_sequence/sequence.hpp"
#include "long_sequence/whole_sequence.hpp"
#include "support/devices.hpp"

namespace tandem::long_sequence {
namespace {

constexpr AttentionBand causal{.right = 0};

/// A sequence that no number of ranks divides.
ContextParallelSpec some_spec(DType dtype, const AttentionBand& band, SequenceSplit split) {
  return {.tokens = 101,
          .batch = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 16,
          .dtype = dtype,
          .band = band,
          .split = split};
}

class LongSequenceTest : public testing::OnEachDevice {
 protected:
  void SetUp() override {
    if (const std::string reason = testing::why_no_attention_on(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
  [[nodiscard]] static std::vector<DType> dtypes() {
    if (GetParam() == DeviceType::cuda) return {bf16, f16};
    return {f32, bf16, f16};
  }
};

TEST_P(LongSequenceTest, AttentionIsThatToTheWholeSequence) {
  const std::vector<DType> of = dtypes();
  for (int ranks = 1; ranks <= 4; ++ranks) {
    on(ranks, [&of](World& world) {
      const Stream stream(world.device());
      for (const DType dtype : of) {
        for (const AttentionBand& band : {causal, AttentionBand{}, AttentionBand{.left = 20, .right = 0}}) {
          for (const SequenceSplit split : {SequenceSplit::zigzag, SequenceSplit::contiguous}) {
            const Sequence sequence(world.team(), some_spec(dtype, band, split));
            ContextParallelAttention attention(world.team(), sequence.spec());
            sequence.forward(attention, stream);
            sequence.backward(attention, stream);
            EXPECT_EQ(WholeSequence(sequence, stream).count_wrong(sequence), Wrong{});
          }
        }
      }
    });
  }
}

template <typename T> void spoil(Device& device, const TensorView& tensor, std::size_t element, float by) {
  std::vector<T> values = device.download<T>(tensor);
  values[element] = T(static_cast<float>(values[element]) + by);
  device.upload(tensor, values);
}

TEST_P(LongSequenceTest, FindsWhatIsWrong) {
  on(3, [](World& world) {
    const Stream stream(world.device());
    const Sequence sequence(world.team(), some_spec(bf16, causal, SequenceSplit::zigzag));
    ContextParallelAttention attention(world.team(), sequence.spec());
    sequence.forward(attention, stream);
    sequence.backward(attention, stream);
    const WholeSequence whole(sequence, stream);
    Device& device = world.device();
    if (world.rank() == 0) spoil<BFloat16>(device, sequence.out(), 3, 0.5F);
    if (world.rank() == 1) spoil<BFloat16>(device, sequence.dq(), 5, std::numeric_limits<float>::quiet_NaN());
    if (world.rank() == 2) {
      spoil<BFloat16>(device, sequence.dk(), 0, -0.5F);
      spoil<BFloat16>(device, sequence.dv(), 7, std::numeric_limits<float>::infinity());
    }
    const std::int64_t forward = world.rank() == 0 ? 1 : 0;
    EXPECT_EQ(whole.count_wrong(sequence), (Wrong{forward, world.rank()}));
  });
}

TEST_P(LongSequenceTest, FindsResultsOfOtherTokens) {
  on(2, [](World& world) {
    const Stream stream(world.device());
    const ContextParallelSpec spec = some_spec(bf16, causal, SequenceSplit::zigzag);
    const Sequence sequence(world.team(), spec);
    ContextParallelSpec other = spec;
    other.band = {};
    ContextParallelAttention attention(world.team(), other);
    sequence.forward(attention, stream);
    sequence.backward(attention, stream);
    const Wrong wrong = WholeSequence(sequence, stream).count_wrong(sequence);
    EXPECT_GT(wrong.forward, sequence.out().numel() / 2);
    EXPECT_GT(wrong.backward, sequence.dq().numel());
  });
}

TEST(LongSequence, CountsWhatIsVisible) {
  const auto pairs = [](const AttentionBand& band) { return visible_pairs(5, 5, band); };
  EXPECT_EQ(pairs({}), 25);
  EXPECT_EQ(pairs(causal), 15);
  EXPECT_EQ(pairs({.left = 1, .right = 0}), 9);
}

/// The blocks must be all that is to compute, and no more: together they see as many pairs as the sequence has.
TEST_P(LongSequenceTest, LocalBlocksSeeAllThatIsVisible) {
  on(3, [](World& world) {
    const Stream stream(world.device());
    for (const std::int64_t tokens : {1, 7, 60}) {
      for (const AttentionBand& band : {causal, AttentionBand{}}) {
        for (const SequenceSplit split : {SequenceSplit::zigzag, SequenceSplit::contiguous}) {
          ContextParallelSpec spec = some_spec(bf16, band, split);
          spec.tokens = tokens;
          const Sequence sequence(world.team(), spec);
          Collectives collectives(sequence);
          const LocalBlocks blocks(sequence, collectives);
          EXPECT_EQ(examples::summed(world.team(), blocks.pairs()), visible_pairs(tokens, tokens, band));
          collectives.gather(sequence, stream);
          blocks.forward(stream);
          blocks.backward(stream);
          collectives.sum_gradients(stream);
          world.team().synchronize(stream);
        }
      }
    }
  });
  EXPECT_FALSE(LocalBlocks::know({.left = 20, .right = 0}));
}

TANDEM_ON_EACH_DEVICE(LongSequenceTest);

}  // namespace
}  // namespace tandem::long_sequence

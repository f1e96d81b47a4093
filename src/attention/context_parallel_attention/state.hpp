// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tandem/attention/context_parallel_attention.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "attention/attention_schedule.hpp"
#include "attention/key_value_fetches.hpp"
#include "attention/local_attentions.hpp"
#include "attention/merge_turns.hpp"
#include "attention/returned_gradients.hpp"
#include "collective/plan_state.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The plan's state. What is public does what the plan's member of that name does.
class ContextParallelAttention::State final : public PlanState {
 public:
  State(const Team& team, const ContextParallelSpec& spec);

  struct Tensors {
    const TensorView& q;
    const TensorView& k;
    const TensorView& v;
    const TensorView& out;
    const TensorView& lse;
  };
  struct Gradients {
    const TensorView& grad_out;
    const TensorView& dq;
    const TensorView& dk;
    const TensorView& dv;
  };

  void forward(const Tensors& tensors, StreamRef stream);
  void backward(const Tensors& tensors, const Gradients& gradients, StreamRef stream);

 private:
  /// A block's number in this rank's order: its own ones, then those of each fetch.
  struct Turn {
    const AttentionBlock& block;
    std::size_t number;
  };
  /// A tensor of tokens into which parts are merged, and what is merged meanwhile.
  struct Merged {
    void* result;
    void* sum;
    std::int64_t heads;
    std::int64_t dim;
  };

  void expect_taken(const Tensors& tensors) const;
  void expect_aligned(const TensorView& view, std::string_view name) const;
  void expect_apart_from(const TensorView& result, std::string_view name, const Tensors& tensors) const;

  void attend(const Turn& turn, const Tensors& tensors, KeysAndValues keys, StreamRef stream) const;
  /// The gradients of a block; those of its keys go to `into`, where its first key's belong.
  void differentiate(const Turn& turn, const Tensors& tensors, const Gradients& gradients, KeysAndValues keys,
                     KeysAndValues into, StreamRef stream) const;
  /// The gradients of what was fetched, in `into`.
  void differentiate_fetched(const AttentionSchedule::Fetch& fetch, std::size_t number, const Tensors& tensors,
                             const Gradients& gradients, KeysAndValues keys, KeysAndValues into,
                             StreamRef stream) const;
  /// Adds gradients of a range of this rank's keys, as part `number` of those of its keys.
  void add_to_own(std::size_t number, const Shard& keys, KeysAndValues part, const Gradients& gradients,
                  StreamRef stream) const;
  /// Copies the statistics of those queries that some blocks have alone.
  void pack_statistics(const TensorView& lse, StreamRef stream) const;
  [[nodiscard]] const float* statistics_of(const AttentionBlock& block, const TensorView& lse) const;
  /// Merges a part of a range into a tensor; without lse it is added.
  void merge(const std::vector<MergeTurn>& turns, const Shard& range, const void* part, const Merged& into, float* lse,
             const float* lse_part, StreamRef stream) const;

  /// Bytes of a token's queries, or of its results, in all batches and heads.
  [[nodiscard]] std::size_t query_bytes(std::int64_t tokens) const noexcept;
  [[nodiscard]] std::size_t out_bytes(std::int64_t tokens) const noexcept;
  [[nodiscard]] std::size_t statistics_bytes(std::int64_t tokens) const noexcept;
  [[nodiscard]] Merged merged_out(const TensorView& out) const;
  [[nodiscard]] Merged merged_dq(const TensorView& dq) const;
  /// Whether a block is the first that its queries, or its keys, have: its results need not be merged.
  [[nodiscard]] bool is_fresh(const Turn& turn) const noexcept { return turn.number < fresh_; }

  struct Statistics {
    Shard queries;
    Reclaimed<Buffer> memory;
  };

  ContextParallelSpec spec_;
  AttentionSchedule schedule_;
  KeyValueRows rows_;
  std::size_t fresh_;                                ///< own blocks of a range with itself
  std::vector<std::vector<MergeTurn>> query_turns_;  ///< by block, behind the fresh ones
  std::vector<std::vector<MergeTurn>> key_turns_;    ///< by own block, behind the fresh ones, then by return
  LocalAttentions attentions_;
  KeyValueFetches fetches_;
  std::optional<ReturnedGradients> returned_;
  Reclaimed<Buffer> part_;             ///< of one block: of `out`, or of dq
  Reclaimed<Buffer> statistics_part_;  ///< of one block
  Reclaimed<Buffer> sum_;              ///< of this rank's queries, in f32
  Reclaimed<Buffer> key_part_;         ///< of one block: of dk and dv
  Reclaimed<Buffer> key_sum_;          ///< of dk and dv, of this rank's keys, in f32
  Reclaimed<Buffer> fetch_sum_;        ///< of dk and dv, of a fetch's keys, in f32
  std::vector<Statistics> packed_;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/sharded/sharded_parameters.hpp"
#include "tandem/team/team.hpp"

#include "collective/plan_state.hpp"
#include "sharded/gathered_groups.hpp"
#include "sharded/group_layout.hpp"
#include "sharded/residency.hpp"
#include "sharded/summed_gradients.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The plan's state. What is public does what the plan's member of that name does.
class ShardedParameters::State final : public PlanState {
 public:
  State(const Team& team, const ShardedSpec& spec, const ShardedOptions& options);

  [[nodiscard]] int groups() const noexcept { return static_cast<int>(layouts_.size()); }
  [[nodiscard]] TensorView shard(int group) const;
  [[nodiscard]] TensorView gradient(int group) const;
  [[nodiscard]] TensorView all_shards() const { return shards_->view({places_.back()}, shard_dtype_); }
  [[nodiscard]] TensorView all_gradients() const { return gradients_->view({places_.back()}, f32); }
  [[nodiscard]] std::span<const ParameterPiece> pieces(int group) const;
  void load(int group, int parameter, const TensorView& whole, StreamRef stream);

  [[nodiscard]] std::span<const TensorView> unshard(int group, StreamRef stream);
  void reshard(int group, StreamRef stream);
  [[nodiscard]] std::span<const TensorView> gradients(int group, StreamRef stream);
  void reduce_gradients(int group, StreamRef stream, const GradientScales& scales);
  void finish(StreamRef stream);

 private:
  /// Throws InvalidArgument unless there is such a group.
  [[nodiscard]] std::size_t index_of(int group) const;
  /// "group 3 'layer'", for errors.
  [[nodiscard]] std::string named(int group) const;
  /// The first call of everything that queues work, before its arguments are checked: continues the step. If it was
  /// captured, and `stream` is not in that capture, the step has ended, or its capture was dropped, and a new one
  /// begins. Refuses to continue in a capture what began outside of it.
  void resume(StreamRef stream);
  void resume(int group, StreamRef stream) {
    static_cast<void>(index_of(group));
    resume(stream);
  }
  /// Gathers what the next uses need and no buffer has.
  void gather_ahead(StreamRef stream);
  /// What is gathered of the group's shard, rounded once a step.
  [[nodiscard]] TensorView rounded(int group);
  /// Ends the step: no group is in use, and none counts as gathered.
  void close() noexcept;

  DType dtype_;  ///< of what is gathered
  DType shard_dtype_;
  std::vector<GroupLayout> layouts_;
  std::vector<std::string> names_;                   ///< of the groups
  std::vector<std::vector<ParameterPiece>> pieces_;  ///< this rank's, by group
  std::vector<std::int64_t> places_;                 ///< where each group's shard begins among all shards
  std::vector<std::uint8_t> has_gradient_;           ///< by group: one of this step
  std::vector<std::uint8_t> is_rounded_;             ///< by group: its shard, in this step
  Residency residency_;
  Reclaimed<Buffer> shards_;     ///< of all groups
  Reclaimed<Buffer> rounded_;    ///< the same in `dtype_`, if that is another one
  Reclaimed<Buffer> gradients_;  ///< of `shards_`
  GatheredGroups gathered_;
  SummedGradients summed_;
  std::optional<int> in_use_;       ///< the group that is unsharded
  std::optional<int> written_;      ///< the group whose gradients are being written
  bool open_ = false;               ///< a step has begun, and is not finished
  std::uint64_t step_capture_ = 0;  ///< the capture of this step, or of the last one; 0: none
};

}  // namespace tandem

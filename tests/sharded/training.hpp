// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/sharded/sharded_parameters.hpp"
#include "tandem/team/team.hpp"

#include "support/guarded_tensor.hpp"

namespace tandem::testing {

/// Groups of parameters of odd sizes, also without dimensions and without elements; two of them of equal size.
[[nodiscard]] std::vector<ParameterGroup> odd_groups();

/// Steps of sharded parameters without any computation: whatever a step gathers is kept, shards get fresh values and
/// gradients are given ones. All of it is queued without waiting, then `check` compares every element. Values are small
/// whole numbers, so exact in each dtype, and different for each rank, step, group and element.
class Training {
 public:
  Training(const Team& team, const ShardedSpec& spec, const ShardedOptions& options, std::uint64_t sequence);

  [[nodiscard]] StreamRef stream() const { return stream_; }
  [[nodiscard]] ShardedParameters& parameters() noexcept { return parameters_; }

  /// From now on uses take turns on two streams, which only the plan orders.
  void alternate_streams() { streams_ = 2; }
  /// Fresh values into all shards; `whole`: by `load`, otherwise into each piece.
  void update(bool whole);
  /// Uses the group that is next in the order; `writes`: and sums gradients of it.
  void use(int group, bool writes, GradientScales scales = {});
  /// Ends the step, and keeps the gradients.
  void finish();
  /// Synchronizes, and compares what was kept.
  void check();

 private:
  struct Kept {
    std::string what;
    GuardedTensor tensor;
    std::vector<double> expected;
  };

  /// The values of a parameter after this many updates, or of a rank's gradient of it in this use.
  [[nodiscard]] std::vector<double> values(std::uint64_t kind, std::uint64_t number, int rank, int group,
                                           int parameter) const;
  [[nodiscard]] const Parameter& parameter(int group, int index) const;
  /// A tensor with these values that lives until the next `check`.
  [[nodiscard]] TensorView given(const Dims& sizes, DType dtype, std::span<const double> values);
  void keep(std::string what, const TensorView& view, std::vector<double> expected, StreamRef stream);
  /// Adds to the sums of a group what all ranks give in this use.
  void add_to_sums(int group, std::uint64_t use, const GradientScales& scales);

  Team team_;
  ShardedSpec spec_;
  std::uint64_t key_;
  Stream stream_;
  Stream other_stream_;
  Event between_steps_;
  std::uint64_t streams_ = 1;
  ShardedParameters parameters_;
  std::uint64_t updates_ = 0;
  std::uint64_t uses_ = 0;
  std::uint64_t delays_ = 0;
  std::vector<std::vector<std::vector<double>>> sums_;  ///< by group and parameter
  std::deque<GuardedTensor> given_;
  std::deque<Kept> kept_;
};

}  // namespace tandem::testing

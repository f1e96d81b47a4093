// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tandem/attention/context_parallel_attention.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "support/devices.hpp"
#include "support/guarded_tensor.hpp"

namespace tandem::testing {

/// A suite whose ranks compute attention.
class AttentionOnEachDevice : public OnEachDevice {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_attention_on(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
  /// A dtype that the device has attention of.
  [[nodiscard]] static DType dtype() { return GetParam() == DeviceType::host ? f32 : bf16; }
};

/// A sequence whose tokens a team shares. Its values are random, and every rank knows all of them: so each compares all
/// elements of its results with an fp64 reference of the whole.
class SharedSequence {
 public:
  SharedSequence(const Team& team, const ContextParallelSpec& spec, std::uint64_t sequence);

  /// This rank's tensors of a run.
  struct Run {
    std::uint64_t number;
    GuardedTensor q, k, v, grad_out;
    GuardedTensor out, lse, dq, dk, dv;
  };

  [[nodiscard]] StreamRef stream() const { return stream_; }
  [[nodiscard]] ContextParallelAttention& attention() noexcept { return attention_; }
  /// From now on calls take turns on two streams, which only the plan orders.
  void alternate_streams() { streams_ = 2; }
  /// Tensors with fresh values, and poisoned results.
  [[nodiscard]] Run& fresh();
  /// Queue a direction with them.
  void forward(const Run& run);
  void backward(const Run& run);
  /// A run in both directions with fresh values, which are overwritten behind it; a random rank is delayed.
  void run();
  /// Synchronizes, and compares the results of all runs.
  void check();

 private:
  [[nodiscard]] std::vector<double> values(std::uint64_t number, std::uint64_t kind, std::int64_t count) const;
  /// This rank's tokens of a tensor of all.
  [[nodiscard]] std::vector<double> own(const std::vector<double>& all, std::int64_t row) const;
  void compare(const Run& run) const;
  [[nodiscard]] const Stream& next_stream();
  void maybe_delay(const Stream& stream);

  Team team_;
  ContextParallelSpec spec_;
  std::uint64_t key_;
  Stream stream_;
  Stream other_stream_;
  std::uint64_t streams_ = 1;
  std::uint64_t calls_ = 0;
  ContextParallelAttention attention_;
  std::int64_t tokens_;  ///< this rank's
  std::deque<Run> runs_;
};

}  // namespace tandem::testing

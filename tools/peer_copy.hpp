// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_memory.hpp"

#include "tools/collective_run.hpp"

namespace tandem::tools {

/// The yardstick of what sends: each rank copies to the next one what a collective sends to one peer (a shard; a
/// broadcast's all), all of them at once; on CUDA by copy engines alone.
class PeerCopy {
 public:
  /// Collective.
  PeerCopy(const Team& team, const CollectiveProblem& problem);

  /// Queues one copy.
  void operator()(StreamRef stream) const;
  /// What all that the collective sends over a rank's links takes at the rate of a copy that took `seconds`.
  [[nodiscard]] double wire_seconds(double seconds) const;

 private:
  Team team_;
  std::size_t bytes_;
  double wire_bytes_;
  SymmetricMemory memory_;  // what is given, then what is got
};

}  // namespace tandem::tools

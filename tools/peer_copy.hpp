// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_memory.hpp"

#include "tools/collective_run.hpp"

namespace tandem::tools {

/// A reference for communication: all ranks at once copy to the next rank what a collective sends to one peer (a shard;
/// for broadcast everything). On CUDA copy engines do this between GPUs.
class PeerCopy {
 public:
  /// Collective.
  PeerCopy(const Team& team, const CollectiveProblem& problem);

  /// Queues one copy.
  void operator()(StreamRef stream) const;
  /// The time of all that the collective sends over a rank's links, at the rate of a copy that took `seconds`.
  [[nodiscard]] double wire_seconds(double seconds) const;

 private:
  Team team_;
  std::size_t bytes_;
  double wire_bytes_;
  SymmetricMemory memory_;  // the bytes to send, then those received
};

}  // namespace tandem::tools

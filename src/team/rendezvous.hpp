// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/team/bootstrap.hpp"

namespace tandem {

/// One rank as another one has met it.
struct Link {
  PeerInfo info;
  FileDescriptor socket;     ///< connected to it; empty for the rank itself
  std::int64_t process = 0;  ///< its process id as this process sees it, for a pidfd; 0 if that is this very process
};

struct Meeting {
  int rank = 0;
  int world_size = 1;
  std::string job;
  std::chrono::milliseconds timeout{0};
};

/// Where the ranks of a job meet on one node. Rank 0 listens at a name made of user and job, hands out a random nonce,
/// and tells who there is; then each two ranks connect at names made of the nonce, and rank 0 tells when all have.
/// Gives a link to each rank, in order. Throws Timeout naming the ranks that did not come, PeerLost naming one that
/// died on the way, InvalidArgument where ranks contradict each other (world size, the same rank twice), OutOfMemory or
/// DeviceError where this rank lacks something. Rank 0 tells the others what it throws: for all but the first three
/// they throw Aborted.
[[nodiscard]] std::vector<Link> meet(const Meeting& meeting);

}  // namespace tandem

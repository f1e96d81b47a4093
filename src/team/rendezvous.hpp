// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/team/bootstrap.hpp"

namespace tandem {

/// The connection of one rank to another.
struct Link {
  PeerInfo info;
  FileDescriptor socket;     ///< connected to it; empty for the rank itself
  std::int64_t process = 0;  ///< its process id as seen by this process, for a pidfd; 0: it is in this process
};

struct Meeting {
  int rank = 0;
  int world_size = 1;
  std::string job;
  std::chrono::milliseconds timeout{0};
};

/// Connects all ranks of a job on one node with each other. Rank 0 listens at a name made of user and job, sends each
/// rank a random nonce and, once all have come, the list of ranks; then every two ranks connect at names made of the
/// nonce, and rank 0 announces when all have. Returns a link to each rank, in order. Throws Timeout naming the ranks
/// that did not come, PeerLost naming one that died meanwhile, InvalidArgument if ranks contradict each other (world
/// size, the same rank twice), OutOfMemory or DeviceError for what fails on this rank. Rank 0 tells the others what it
/// throws: they throw the same for the first three, else Aborted.
[[nodiscard]] std::vector<Link> meet(const Meeting& meeting);

}  // namespace tandem

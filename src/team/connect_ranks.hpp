// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "team/connecting_rank.hpp"
#include "team/peer_socket.hpp"

namespace tandem {

/// Connects all ranks of a job on one node with each other. Rank 0 listens at a name made of user and job, sends each
/// rank a random nonce and, once all have come, the list of ranks; then every two ranks connect at names made of the
/// nonce, and rank 0 announces when all have. Returns a socket to each rank, in order. Throws Timeout naming the ranks
/// that did not come, PeerLost naming one that died meanwhile, InvalidArgument if ranks contradict each other (world
/// size, the same rank twice), OutOfMemory or DeviceError for what fails on this rank. Rank 0 tells the others what it
/// throws: they throw the same for the first three, else Aborted.
[[nodiscard]] std::vector<PeerSocket> connect_ranks(const RankOfJob& rank);

}  // namespace tandem

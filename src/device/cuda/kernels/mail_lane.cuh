// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/cuda/kernels/mailed_exchange.hpp"

namespace tandem::cuda {

constexpr int most_lane_threads = 1024;

// Each thread block is a lane. It depends on no other block of its grid, so not all need to be resident at once; but it
// needs the same lane of every peer to run eventually, so kernels that wait on a GPU must leave room for it.

/// A lane's slice of a shard or of other data, in elements; `begin` is relative to the whole tensor or that data.
struct Part {
  std::int64_t begin;
  std::int64_t count;
};

/// The slice of the shard of `rank`.
__device__ inline Part part_of(const MailedExchangeArguments& arguments, int rank) {
  const std::int64_t shard = rank * arguments.shard;
  const std::int64_t begin = shard + blockIdx.x * arguments.slice;
  const std::int64_t end = min(min(shard + arguments.length, arguments.count), begin + arguments.slice);
  return {begin, end > begin ? end - begin : 0};
}

/// The slice of `count` elements of other data (a MailedPart); `count` is at most `length`.
__device__ inline Part part_of_first(const MailedExchangeArguments& arguments, std::int64_t count) {
  const std::int64_t begin = blockIdx.x * arguments.slice;
  return {begin, max(min(count - begin, arguments.slice), std::int64_t{0})};
}

/// A rank's index among the peers, which are all ranks but this one, and a peer's rank.
__device__ inline int peer_of(const MailedExchangeArguments& arguments, int rank) {
  return rank - (rank > arguments.rank ? 1 : 0);
}
__device__ inline int rank_of(const MailedExchangeArguments& arguments, int peer) {
  return peer + (peer >= arguments.rank ? 1 : 0);
}

}  // namespace tandem::cuda

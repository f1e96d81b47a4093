// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/cuda/kernels/mailed_exchange.hpp"

namespace tandem::cuda {

constexpr int most_lane_threads = 1024;

// A block is a lane. It depends on no other block of its grid, so those need not all be resident at once; but each
// lane needs the same lane of every peer to run sooner or later, so that what waits on a GPU must leave room for it.

/// A lane's slice of a rank's shard, in elements of the whole.
struct Part {
  std::int64_t begin;
  std::int64_t count;
};

/// Of the shard of `rank`.
__device__ inline Part part_of(const MailedExchangeArguments& arguments, int rank) {
  const std::int64_t shard = rank * arguments.shard;
  const std::int64_t begin = shard + blockIdx.x * arguments.slice;
  const std::int64_t end = min(min(shard + arguments.length, arguments.count), begin + arguments.slice);
  return {begin, end > begin ? end - begin : 0};
}

/// Of the first `count` elements of something else. Of all that goes in an exchange `length` is the longest.
__device__ inline Part part_of_first(const MailedExchangeArguments& arguments, std::int64_t count) {
  const std::int64_t begin = blockIdx.x * arguments.slice;
  return {begin, max(min(count - begin, arguments.slice), std::int64_t{0})};
}

/// A rank's place among the peers, and the other way round: they are all but this rank.
__device__ inline int peer_of(const MailedExchangeArguments& arguments, int rank) {
  return rank - (rank > arguments.rank ? 1 : 0);
}
__device__ inline int rank_of(const MailedExchangeArguments& arguments, int peer) {
  return peer + (peer >= arguments.rank ? 1 : 0);
}

}  // namespace tandem::cuda

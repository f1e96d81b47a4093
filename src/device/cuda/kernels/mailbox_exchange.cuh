// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/mail.hpp"
#include "tandem/device/signal_device.cuh"

#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/epilogue.cuh"
#include "device/cuda/kernels/mail_lane.cuh"
#include "device/cuda/kernels/meeting.cuh"
#include "device/cuda/kernels/sum.cuh"

namespace tandem::cuda {

/// A lane's mailboxes of one of the two turns.
struct Mailboxes {
  const MailedExchangeArguments& arguments;
  std::size_t at;  // byte offset from the mailboxes of lane 0 and turn 0

  __device__ SignalWord* mine(int peer) const { return moved(arguments.peers[peer].mine, at); }
  __device__ SignalWord* theirs(int peer) const { return moved(arguments.peers[peer].theirs, at); }
  /// The message from the peer, and the one to it.
  __device__ const std::byte* received(int peer) const {
    return reinterpret_cast<const std::byte*>(mine(peer)) + mail_offset;
  }
  __device__ std::byte* sent(int peer) const { return reinterpret_cast<std::byte*>(theirs(peer)) + mail_offset; }
};

/// The turn that is next, 0 or 1. Each message so far has incremented `put` of the mailbox that it used, equally for
/// all peers. All threads read these words before the first barrier, and they are written only after it.
__device__ inline std::size_t turn_of(const MailedExchangeArguments& arguments) {
  const std::size_t lane = blockIdx.x * arguments.lane_pitch;
  return (Mailboxes{arguments, lane}.mine(0)->put + Mailboxes{arguments, lane + arguments.turn_pitch}.mine(0)->put) % 2;
}

__device__ inline Mailboxes mailboxes(const MailedExchangeArguments& arguments, std::size_t turn) {
  return {arguments, blockIdx.x * arguments.lane_pitch + turn * arguments.turn_pitch};
}

/// See meet_peers in meeting.cuh.
__device__ inline void meet_peers(const Mailboxes& boxes) {
  const MailedExchangeArguments& arguments = boxes.arguments;
  meet_peers(arguments.peers, arguments.peer_count, boxes.at, arguments.operation, arguments.control);
}

/// Calls body.operator()<n>(first) for packs of n elements that cover [0, count), each by one thread of the block.
template <int N, typename Body> __device__ void for_each_pack(std::int64_t count, const Body& body) {
  const std::int64_t packs = count / N;
  for (std::int64_t p = threadIdx.x; p < packs; p += blockDim.x) body.template operator()<N>(p * N);
  if constexpr (N > 1) {
    const std::int64_t rest = packs * N + threadIdx.x;  // a block has more threads than a pack has elements
    if (rest < count) body.template operator()<1>(rest);
  }
}

/// For each peer p, copies count(p) elements, at most a slice, from from(p) to to(p). To keep all links busy, the block
/// moves on to the next peer with each access, and each lane starts with a different peer.
template <typename T, int N, typename Count, typename From, typename To>
__device__ void copy_for_peers(const MailedExchangeArguments& arguments, const Count& count, const From& from,
                               const To& to) {
  constexpr int batch = 4;  // loads in flight
  const int peers = arguments.peer_count;
  const int rows = static_cast<int>((arguments.slice / N + blockDim.x - 1) / blockDim.x);
  int row = 0;
  int peer = static_cast<int>(blockIdx.x) % peers;
  for (int left = rows * peers; left > 0; left -= batch) {
    PackBits<T, N> packs[batch];
    void* places[batch];
    std::int64_t firsts[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      firsts[j] = (static_cast<std::int64_t>(row) * blockDim.x + threadIdx.x) * N;
      places[j] = nullptr;
      if (j < left && firsts[j] + N <= count(peer)) {
        packs[j] = load_bits<T, N>(from(peer), firsts[j]);
        places[j] = to(peer);
      }
      if (++peer == peers) peer = 0;
      if (peer == static_cast<int>(blockIdx.x) % peers) ++row;
    }
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      if (places[j] != nullptr) store_bits<T, N>(places[j], firsts[j], packs[j]);
    }
  }
  if constexpr (N > 1) {
    for (int p = 0; p < peers; ++p) {
      const std::int64_t rest = count(p) / N * N + threadIdx.x;
      if (rest < count(p)) store_pack<T, 1>(to(p), rest, load_pack<T, 1>(from(p), rest));
    }
  }
}

/// Copies the parts that the peers sent to their places in `out`.
template <typename T, int N> __device__ void take_parts(const Mailboxes& boxes, T* out) {
  const MailedExchangeArguments& arguments = boxes.arguments;
  copy_for_peers<T, N>(
      arguments, [&](int peer) { return part_of(arguments, rank_of(arguments, peer)).count; },
      [&](int peer) { return boxes.received(peer); },
      [&](int peer) { return out + part_of(arguments, rank_of(arguments, peer)).begin; });
}

template <typename T, int N>
__global__ void __launch_bounds__(most_lane_threads)
    mailbox_sum_kernel(const __grid_constant__ MailedExchangeArguments arguments) {
  const T* const input = static_cast<const T*>(arguments.input);
  const Part mine = part_of(arguments, arguments.rank);
  T* const out = static_cast<T*>(arguments.out);
  T* const sum = out + (mine.begin - arguments.out_begin);
  const std::size_t turn = turn_of(arguments);
  const Mailboxes inputs = mailboxes(arguments, turn);
  const Mailboxes sums = mailboxes(arguments, 1 - turn);  // the next turn's

  copy_for_peers<T, N>(
      arguments, [&](int peer) { return part_of(arguments, rank_of(arguments, peer)).count; },
      [&](int peer) { return input + part_of(arguments, rank_of(arguments, peer)).begin; },
      [&](int peer) { return inputs.sent(peer); });
  meet_peers(inputs);
  for_each_pack<N>(mine.count, [&]<int n>(std::int64_t first) {
    Accumulator<T> wide[1][n] = {};
    sum_packs<T>(wide, arguments.peer_count + 1, first, 0, [&](int rank) -> const void* {
      if (rank == arguments.rank) return input + mine.begin;
      return inputs.received(peer_of(arguments, rank));
    });
    Pack<T, n> rounded;
    finish_sums<T>(rounded, wide[0], arguments.epilogue, mine.begin + first);
    store_pack<T, n>(sum, first, rounded);
    if (!arguments.gathers) return;
    for (int p = 0; p < arguments.peer_count; ++p) store_pack<T, n>(sums.sent(p), first, rounded);
  });
  if (!arguments.gathers) return;
  meet_peers(sums);
  take_parts<T, N>(sums, out);
}

template <typename T, int N>
__global__ void __launch_bounds__(most_lane_threads)
    mailbox_gather_kernel(const __grid_constant__ MailedExchangeArguments arguments) {
  const Part mine = part_of(arguments, arguments.rank);
  const T* const shard = static_cast<const T*>(arguments.input) + (mine.begin - arguments.input_begin);
  T* const out = static_cast<T*>(arguments.out);
  const Mailboxes boxes = mailboxes(arguments, turn_of(arguments));
  copy_for_peers<T, N>(
      arguments, [&](int) { return mine.count; }, [&](int) { return shard; },
      [&](int peer) { return boxes.sent(peer); });
  if (shard != out + mine.begin) {
    for_each_pack<N>(mine.count, [&]<int n>(std::int64_t first) {
      store_pack<T, n>(out + mine.begin, first, load_pack<T, n>(shard, first));
    });
  }
  meet_peers(boxes);
  take_parts<T, N>(boxes, out);
}

template <typename T, int N>
__global__ void __launch_bounds__(most_lane_threads)
    mailbox_parts_kernel(const __grid_constant__ MailedPartsArguments arguments) {
  const auto with = [&](int peer) -> const MailedPart& { return arguments.parts[rank_of(arguments, peer)]; };
  const auto count = [&](std::int64_t all) { return part_of_first(arguments, all).count; };
  const std::int64_t begin = blockIdx.x * arguments.slice;
  const Mailboxes boxes = mailboxes(arguments, turn_of(arguments));
  copy_for_peers<T, N>(
      arguments, [&](int peer) { return count(with(peer).sent); },
      [&](int peer) { return static_cast<const T*>(with(peer).from) + begin; },
      [&](int peer) { return boxes.sent(peer); });
  const MailedPart& own = arguments.parts[arguments.rank];
  if (own.from != own.to) {
    for_each_pack<N>(count(own.sent), [&]<int n>(std::int64_t first) {
      store_pack<T, n>(own.to, begin + first, load_pack<T, n>(own.from, begin + first));
    });
  }
  meet_peers(boxes);
  copy_for_peers<T, N>(
      arguments, [&](int peer) { return count(with(peer).received); }, [&](int peer) { return boxes.received(peer); },
      [&](int peer) { return static_cast<T*>(with(peer).to) + begin; });
}

}  // namespace tandem::cuda

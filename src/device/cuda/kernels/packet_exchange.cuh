// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/epilogue.cuh"
#include "device/cuda/kernels/mail_lane.cuh"
#include "device/cuda/kernels/packet.cuh"
#include "device/cuda/kernels/sum.cuh"

namespace tandem::cuda {

// Packet p of all parts is sent, received and summed by the same thread: no thread waits for another one of its block,
// and if the exchange is in place, each element is read before it is overwritten.

/// Elements per packet.
template <typename T> constexpr int packed = sizeof(MailPacket::bytes) / sizeof(T);

/// The number of packets of a part; one if it is empty, so that every rank receives something from every peer.
template <typename T> __device__ std::int64_t packets_of(const Part& part) {
  return part.count == 0 ? 1 : (part.count + packed<T> - 1) / packed<T>;
}

/// The elements of packet `p` of a part that begins at `base`; 0 beyond the end of the part.
template <typename T, bool aligned>
__device__ Pack<T, packed<T>> load_elements(const T* base, std::int64_t p, const Part& part) {
  const std::int64_t first = p * packed<T>;
  if (aligned && first + packed<T> <= part.count) return load_pack<T, packed<T>>(base, first);
  Pack<T, packed<T>> pack{};
#pragma unroll
  for (int i = 0; i < packed<T>; ++i) {
    if (first + i < part.count) pack.values[i] = base[first + i];
  }
  return pack;
}

template <typename T, bool aligned>
__device__ void store_elements(T* base, std::int64_t p, const Part& part, const Pack<T, packed<T>>& pack) {
  const std::int64_t first = p * packed<T>;
  if (aligned && first + packed<T> <= part.count) return store_pack<T, packed<T>>(base, first, pack);
#pragma unroll
  for (int i = 0; i < packed<T>; ++i) {
    if (first + i < part.count) base[first + i] = pack.values[i];
  }
}

/// A lane's packet boxes in the turn `number`, whose packets carry that number; consecutive turns use different boxes.
class PacketBoxes {
 public:
  __device__ PacketBoxes(const MailedExchangeArguments& arguments, BlockPatience& patience, std::uint64_t number)
      : arguments_(arguments),
        patience_(patience),
        number_(number),
        at_(blockIdx.x * arguments.lane_pitch + number % 2 * arguments.turn_pitch + arguments.packet_box) {}

  /// How many turns the lane has had; two_shot takes two.
  [[nodiscard]] __device__ static std::uint64_t& count_of(const MailedExchangeArguments& arguments) {
    return box(arguments.peers[0].mine, blockIdx.x * arguments.lane_pitch + arguments.packet_box)->number;
  }

  template <typename T> __device__ void send(int peer, std::int64_t p, const Pack<T, packed<T>>& pack) const {
    MailPacket packet{.bytes = 0, .number = number_};
    std::memcpy(&packet.bytes, &pack, sizeof pack);
    store_packet(box(arguments_.peers[peer].theirs, at_) + 1 + p, packet);
  }

  /// Calls use(peer, pack), in peer order, with packet `p` of each peer that sends one, as sent(peer) says.
  template <typename T, typename Sent, typename Use>
  __device__ void receive(std::int64_t p, const Sent& sent, const Use& use) const {
    constexpr int batch = 4;  // loads in flight
    for (int first = 0; first < arguments_.peer_count; first += batch) {
      MailPacket packets[batch];
#pragma unroll
      for (int j = 0; j < batch; ++j) {
        if (first + j < arguments_.peer_count && sent(first + j)) packets[j] = load_packet(place(first + j, p));
      }
#pragma unroll
      for (int j = 0; j < batch; ++j) {
        const int peer = first + j;
        if (peer >= arguments_.peer_count || !sent(peer)) continue;
        const SignalWait wait{
            .peer = arguments_.peers[peer].world_rank, .channel = blockIdx.x, .operation = arguments_.operation};
        patience_.await(packets[j], place(peer, p), number_, wait, arguments_.control);
        Pack<T, packed<T>> pack;
        std::memcpy(&pack, &packets[j].bytes, sizeof pack);
        use(peer, pack);
      }
    }
  }

 private:
  [[nodiscard]] __device__ static MailPacket* box(SignalWord* mailbox, std::size_t bytes) {
    return reinterpret_cast<MailPacket*>(reinterpret_cast<std::byte*>(mailbox) + bytes);
  }
  [[nodiscard]] __device__ const MailPacket* place(int peer, std::int64_t p) const {
    return box(arguments_.peers[peer].mine, at_) + 1 + p;
  }

  const MailedExchangeArguments& arguments_;
  BlockPatience& patience_;
  std::uint64_t number_;
  std::size_t at_;
};

/// Stores the lane's new count of turns, after all threads have read the old one.
__device__ inline void keep_count(const MailedExchangeArguments& arguments, std::uint64_t count) {
  __syncthreads();
  if (threadIdx.x == 0) PacketBoxes::count_of(arguments) = count;
}

/// Rank 0's part is the longest.
template <typename T> __device__ std::int64_t most_packets(const MailedExchangeArguments& arguments) {
  return packets_of<T>(part_of(arguments, 0));
}

/// Copies the parts that the peers sent to their places in `out`.
template <typename T, bool aligned>
__device__ void take_packets(const MailedExchangeArguments& arguments, const PacketBoxes& boxes, T* out) {
  const auto part = [&](int peer) { return part_of(arguments, rank_of(arguments, peer)); };
  for (std::int64_t p = threadIdx.x; p < most_packets<T>(arguments); p += blockDim.x) {
    boxes.receive<T>(
        p, [&](int peer) { return p < packets_of<T>(part(peer)); },
        [&](int peer, const Pack<T, packed<T>>& pack) {
          store_elements<T, aligned>(out + part(peer).begin, p, part(peer), pack);
        });
  }
}

template <typename T, bool aligned>
__global__ void __launch_bounds__(most_lane_threads)
    packet_sum_kernel(const __grid_constant__ MailedExchangeArguments arguments) {
  const T* const input = static_cast<const T*>(arguments.input);
  T* const out = static_cast<T*>(arguments.out);
  const Part mine = part_of(arguments, arguments.rank);
  const std::uint64_t number = PacketBoxes::count_of(arguments) + 1;
  __shared__ BlockPatience patience;
  const PacketBoxes inputs(arguments, patience, number);
  const PacketBoxes sums(arguments, patience, number + 1);

  for (std::int64_t p = threadIdx.x; p < most_packets<T>(arguments); p += blockDim.x) {
    for (int peer = 0; peer < arguments.peer_count; ++peer) {
      const Part part = part_of(arguments, rank_of(arguments, peer));
      if (p < packets_of<T>(part)) inputs.send<T>(peer, p, load_elements<T, aligned>(input + part.begin, p, part));
    }
  }
  patience.begin();
  for (std::int64_t p = threadIdx.x; p < packets_of<T>(mine); p += blockDim.x) {
    const Pack<T, packed<T>> own = load_elements<T, aligned>(input + mine.begin, p, mine);
    Accumulator<T> wide[packed<T>] = {};
    const auto add = [&](const Pack<T, packed<T>>& pack, bool first) {
#pragma unroll
      for (int i = 0; i < packed<T>; ++i) {
        const auto x = widen(pack.values[i]);
        // The first source is not added to 0, so that its negative zeros keep their sign.
        wide[i] = first ? x : static_cast<Accumulator<T>>(wide[i] + x);
      }
    };
    inputs.receive<T>(
        p, [](int) { return true; },
        [&](int peer, const Pack<T, packed<T>>& pack) {
          if (peer == arguments.rank) add(own, peer == 0);  // after the lower ranks, before the higher ones
          add(pack, peer == 0 && arguments.rank != 0);
        });
    if (arguments.rank == arguments.peer_count) add(own, false);
    Pack<T, packed<T>> rounded;
    finish_sums<T>(rounded, wide, arguments.epilogue, mine.begin + p * packed<T>);
    store_elements<T, aligned>(out + (mine.begin - arguments.out_begin), p, mine, rounded);
    // After a failed wait the sum is invalid, and the peers could not tell it from a valid one.
    if (!arguments.gathers || patience.ended()) continue;
    for (int peer = 0; peer < arguments.peer_count; ++peer) sums.send<T>(peer, p, rounded);
  }
  if (arguments.gathers) take_packets<T, aligned>(arguments, sums, out);
  keep_count(arguments, arguments.gathers ? number + 1 : number);
}

template <typename T, bool aligned>
__global__ void __launch_bounds__(most_lane_threads)
    packet_gather_kernel(const __grid_constant__ MailedExchangeArguments arguments) {
  const Part mine = part_of(arguments, arguments.rank);
  const T* const shard = static_cast<const T*>(arguments.input) + (mine.begin - arguments.input_begin);
  T* const out = static_cast<T*>(arguments.out);
  const std::uint64_t number = PacketBoxes::count_of(arguments) + 1;
  __shared__ BlockPatience patience;
  const PacketBoxes boxes(arguments, patience, number);
  for (std::int64_t p = threadIdx.x; p < packets_of<T>(mine); p += blockDim.x) {
    const Pack<T, packed<T>> pack = load_elements<T, aligned>(shard, p, mine);
    for (int peer = 0; peer < arguments.peer_count; ++peer) boxes.send<T>(peer, p, pack);
    if (shard != out + mine.begin) store_elements<T, aligned>(out + mine.begin, p, mine, pack);
  }
  patience.begin();
  take_packets<T, aligned>(arguments, boxes, out);
  keep_count(arguments, number);
}

template <typename T, bool aligned>
__global__ void __launch_bounds__(most_lane_threads)
    packet_parts_kernel(const __grid_constant__ MailedPartsArguments arguments) {
  const auto with = [&](int peer) -> const MailedPart& { return arguments.parts[rank_of(arguments, peer)]; };
  const auto part = [&](std::int64_t all) { return part_of_first(arguments, all); };
  const std::uint64_t number = PacketBoxes::count_of(arguments) + 1;
  __shared__ BlockPatience patience;
  const PacketBoxes boxes(arguments, patience, number);
  const MailedPart& own = arguments.parts[arguments.rank];
  const std::int64_t packets = packets_of<T>(part(arguments.length));
  for (std::int64_t p = threadIdx.x; p < packets; p += blockDim.x) {
    const auto load = [&](const MailedPart& each) {
      const Part sent = part(each.sent);
      return load_elements<T, aligned>(static_cast<const T*>(each.from) + sent.begin, p, sent);
    };
    for (int peer = 0; peer < arguments.peer_count; ++peer) {
      if (p < packets_of<T>(part(with(peer).sent))) boxes.send<T>(peer, p, load(with(peer)));
    }
    if (own.from != own.to && p < packets_of<T>(part(own.sent))) {
      const Part kept = part(own.received);
      store_elements<T, aligned>(static_cast<T*>(own.to) + kept.begin, p, kept, load(own));
    }
  }
  patience.begin();
  for (std::int64_t p = threadIdx.x; p < packets; p += blockDim.x) {
    boxes.receive<T>(
        p, [&](int peer) { return p < packets_of<T>(part(with(peer).received)); },
        [&](int peer, const Pack<T, packed<T>>& pack) {
          const Part received = part(with(peer).received);
          store_elements<T, aligned>(static_cast<T*>(with(peer).to) + received.begin, p, received, pack);
        });
  }
  keep_count(arguments, number);
}

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
// Compiled with -fmad=false, as reduce.cu is: sums have the same bits in both.
#include <algorithm>

#include "tandem/device/mail.hpp"

#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/mailed_sum.hpp"
#include "device/cuda/kernels/signal.cuh"
#include "device/cuda/kernels/sum.cuh"
#include "device/cuda/kernels/table.cuh"

namespace tandem::cuda {
namespace {

constexpr int threads = 256;

__device__ SignalWord* moved(SignalWord* word, std::size_t bytes) {
  return reinterpret_cast<SignalWord*>(reinterpret_cast<std::byte*>(word) + bytes);
}

__device__ std::byte* mail_in(SignalWord* mailbox) { return reinterpret_cast<std::byte*>(mailbox) + mail_offset; }

/// Calls body.operator()<n>(first) for packs of n elements that cover [0, count), a thread each.
template <int N, typename Body> __device__ void for_each_pack(std::int64_t count, const Body& body) {
  const std::int64_t packs = count / N;
  for (std::int64_t p = threadIdx.x; p < packs; p += threads) body.template operator()<N>(p * N);
  if constexpr (N > 1) {
    const std::int64_t rest = packs * N + threadIdx.x;  // a block has more threads than a pack elements
    if (rest < count) body.template operator()<1>(rest);
  }
}

// A block is a lane. It depends on no other block of its grid, so it does not matter how many of them are resident.
//
// The turn is that of the lane's sums so far: each adds one to `put` of one of its two mailboxes, which are equal for
// all peers. All threads read it before the first barrier, and one writes it after.
//
// What the block stored is published by the threads that signal: the barrier orders it before them, and a release at
// system scope is cumulative. The other way round, what they acquire is visible to the block behind the next barrier.
// No thread reads a mailbox before that, so no L1 holds an old line of it.
template <typename T, int N>
__global__ void __launch_bounds__(threads) mailed_sum_kernel(const MailedSumArguments arguments) {
  const std::size_t lane = blockIdx.x;
  const std::int64_t begin = static_cast<std::int64_t>(lane) * arguments.slice;
  const std::int64_t left = arguments.count - begin;
  const std::int64_t count = left < arguments.slice ? left : arguments.slice;
  const T* const input = static_cast<const T*>(arguments.input) + begin;
  T* const out = static_cast<T*>(arguments.out) + begin;

  const std::size_t at_lane = lane * arguments.lane_pitch;
  const SignalWord* const first_turn = moved(arguments.peers[0].mine, at_lane);
  const SignalWord* const second_turn = moved(arguments.peers[0].mine, at_lane + arguments.turn_pitch);
  const std::size_t at = at_lane + ((first_turn->put + second_turn->put) % 2) * arguments.turn_pitch;

  for_each_pack<N>(count, [&]<int n>(std::int64_t first) {
    const Pack<T, n> pack = load_pack<T, n>(input, first);
    for (int p = 0; p < arguments.peer_count; ++p) {
      store_pack<T, n>(mail_in(moved(arguments.peers[p].theirs, at)), first, pack);
    }
  });
  __syncthreads();
  if (threadIdx.x < arguments.peer_count) {
    const MailPeer& peer = arguments.peers[threadIdx.x];
    SignalWord* const mine = moved(peer.mine, at);
    put_signal({.mine = mine, .theirs = moved(peer.theirs, at)});
    wait_signal({.word = mine,
                 .peer = peer.world_rank,
                 .channel = static_cast<std::uint32_t>(lane),
                 .operation = arguments.operation},
                arguments.control);
  }
  __syncthreads();
  for_each_pack<N>(count, [&]<int n>(std::int64_t first) {
    Accumulator<T> sums[n] = {};
    sum_packs<T>(sums, arguments.peer_count + 1, first, [&](int rank) -> const void* {
      if (rank == arguments.rank) return input;
      return mail_in(moved(arguments.peers[rank - (rank > arguments.rank ? 1 : 0)].mine, at));
    });
    Pack<T, n> result;
    round_sums<T>(result, sums);
    store_pack<T, n>(out, first, result);
  });
}

template <DType dtype> KernelRow row() {
  using T = Element<dtype>;
  constexpr int width = 16 / sizeof(T);
  return {dtype, dtype, width, reinterpret_cast<const void*>(&mailed_sum_kernel<T, width>),
          reinterpret_cast<const void*>(&mailed_sum_kernel<T, 1>)};
}

const KernelRow table[] = {row<f32>(), row<f16>(), row<bf16>(), row<f64>(), row<i32>(), row<i64>()};

}  // namespace

bool can_sum_mail(DType dtype) noexcept { return find_kernel(table, dtype, dtype) != nullptr; }

cudaError_t launch_mailed_sum(const MailedSumArguments& arguments, DType dtype, int lanes, cudaStream_t stream) {
  const KernelRow* kernel = find_kernel(table, dtype, dtype);
  const bool vector = aligned16(arguments.input) && aligned16(arguments.out) && arguments.slice % kernel->width == 0;
  void* parameters[] = {const_cast<MailedSumArguments*>(&arguments)};
  return cudaLaunchKernel(vector ? kernel->vector : kernel->scalar, dim3(static_cast<unsigned>(lanes)), dim3(threads),
                          parameters, 0, stream);
}

cudaError_t load_mailed_sum_kernels() { return load_kernels(table); }

}  // namespace tandem::cuda

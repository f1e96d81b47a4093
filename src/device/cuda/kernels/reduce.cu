// SPDX-License-Identifier: Apache-2.0
// Compiled with -fmad=false (see CMakeLists.txt): multiplications and additions are fused only where written so, and
// the vector and scalar kernels give bitwise equal results.
#include <algorithm>

#include "device/cuda/kernels/batches.cuh"
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/epilogue.cuh"
#include "device/cuda/kernels/meeting.cuh"
#include "device/cuda/kernels/reduce.hpp"
#include "device/cuda/kernels/sum.cuh"
#include "device/cuda/kernels/table.cuh"

namespace tandem::cuda {
namespace {

constexpr int threads = 256;

/// Reduces elements [first, first + N), and those of B - 1 more packs at intervals of `pitch`: the sum in the order of
/// the sources, then bias, activation and one rounding.
template <typename In, typename Out, int N, int B>
__device__ void reduce_packs(const ReduceArguments& arguments, std::int64_t first, std::int64_t pitch) {
  Accumulator<In> sums[B][N] = {};
  sum_packs<In>(sums, arguments.source_count, first, pitch, [&](int source) { return arguments.sources[source]; });
#pragma unroll
  for (int b = 0; b < B; ++b) {
    Pack<Out, N> result;
    finish_sums<In>(result, sums[b], arguments.epilogue, first + b * pitch);
    for (int d = 0; d < arguments.destination_count; ++d) {
      store_pack<Out, N>(arguments.destinations[d], first + b * pitch, result);
    }
  }
}

/// Without batches: within a GPU, the resident threads have enough loads in flight, and batches, which take more
/// registers, are slower.
template <typename In, typename Out, int N>
__global__ void __launch_bounds__(threads) reduce_kernel(const ReduceArguments arguments) {
  for_each_batch<N, 1>(arguments.count, true, [&]<int n, int b>(std::int64_t first, std::int64_t pitch) {
    reduce_packs<In, Out, n, b>(arguments, first, pitch);
  });
}

template <typename T, int N>
__global__ void __launch_bounds__(threads, 2)
    meeting_kernel(const __grid_constant__ ReduceInMeetingArguments arguments) {
  constexpr int batch = sizeof(T) == 1 ? 2 : 4;  // limited by the registers for sums: a pack of bytes has 16
  meet_peers(arguments.meeting);
  for_each_batch<N, batch>(arguments.reduce.count, !arguments.in_batches,
                           [&]<int n, int b>(std::int64_t first, std::int64_t pitch) {
                             reduce_packs<T, T, n, b>(arguments.reduce, first, pitch);
                           });
  meet_peers(arguments.meeting);
}

template <DType in, DType out> KernelRow row() {
  using In = Element<in>;
  using Out = Element<out>;
  constexpr int width = 16 / sizeof(In);
  return {in, out, width, reinterpret_cast<const void*>(&reduce_kernel<In, Out, width>),
          reinterpret_cast<const void*>(&reduce_kernel<In, Out, 1>)};
}

const KernelRow table[] = {
    row<f32, f32>(), row<f16, f16>(), row<f16, f32>(), row<bf16, bf16>(), row<bf16, f32>(),
    row<f64, f64>(), row<i32, i32>(), row<i64, i64>(), row<u8, u8>(),
};

template <DType dtype> KernelRow meeting_row() {
  using T = Element<dtype>;
  constexpr int width = 16 / sizeof(T);
  return {dtype, dtype, width, reinterpret_cast<const void*>(&meeting_kernel<T, width>),
          reinterpret_cast<const void*>(&meeting_kernel<T, 1>)};
}

const KernelRow meetings[] = {meeting_row<f32>(), meeting_row<f16>(), meeting_row<bf16>(), meeting_row<f64>(),
                              meeting_row<i32>(), meeting_row<i64>(), meeting_row<u8>()};

bool all_aligned(const ReduceArguments& arguments) noexcept {
  return std::all_of(arguments.sources, arguments.sources + arguments.source_count, aligned16) &&
         std::all_of(arguments.destinations, arguments.destinations + arguments.destination_count, aligned16);
}

}  // namespace

bool can_reduce(DType dtype, DType out_dtype) noexcept { return find_kernel(table, dtype, out_dtype) != nullptr; }

cudaError_t launch_reduce(const ReduceArguments& arguments, DType dtype, DType out_dtype, int max_blocks,
                          cudaStream_t stream) {
  const KernelRow* kernel = find_kernel(table, dtype, out_dtype);
  return launch_elements(*kernel, all_aligned(arguments), arguments.count, threads, max_blocks,
                         const_cast<ReduceArguments*>(&arguments), stream);
}

cudaError_t launch_reduce_in_meeting(const ReduceInMeetingArguments& arguments, DType dtype, int blocks,
                                     cudaStream_t stream) {
  const KernelRow* kernel = find_kernel(meetings, dtype, dtype);
  void* parameters[] = {const_cast<ReduceInMeetingArguments*>(&arguments)};
  return cudaLaunchKernel(all_aligned(arguments.reduce) ? kernel->vector : kernel->scalar,
                          dim3(static_cast<unsigned>(blocks)), dim3(threads), parameters, 0, stream);
}

cudaError_t load_reduce_kernels() {
  const cudaError_t result = load_kernels(table);
  return result != cudaSuccess ? result : load_kernels(meetings);
}

}  // namespace tandem::cuda

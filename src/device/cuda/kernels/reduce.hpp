// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

#include "tandem/device/reduce.hpp"

#include "device/cuda/kernels/epilogue.hpp"
#include "device/cuda/kernels/meeting.hpp"

namespace tandem::cuda {

/// `Reduction` by value: 64 + 64 pointers are 1 KiB of the 4 KiB that a kernel's parameters may take.
struct ReduceArguments {
  const void* sources[max_reduce_operands];
  void* destinations[max_reduce_operands];
  std::int32_t source_count;
  std::int32_t destination_count;
  std::int64_t count;
  Epilogue epilogue;
};

struct ReduceInMeetingArguments {
  ReduceArguments reduce;
  Meeting meeting;
  bool in_batches;  ///< a thread has the loads of several packs in flight
};

/// True if there is a kernel for this pair of dtypes.
[[nodiscard]] bool can_reduce(DType dtype, DType out_dtype) noexcept;

/// `count` must not be 0, and `can_reduce` must hold for the dtypes. Launches at most `max_blocks` blocks.
[[nodiscard]] cudaError_t launch_reduce(const ReduceArguments& arguments, DType dtype, DType out_dtype, int max_blocks,
                                        cudaStream_t stream);
/// `can_reduce(dtype, dtype)` must hold. Needs at least one peer.
[[nodiscard]] cudaError_t launch_reduce_in_meeting(const ReduceInMeetingArguments& arguments, DType dtype, int blocks,
                                                   cudaStream_t stream);
[[nodiscard]] cudaError_t load_reduce_kernels();

}  // namespace tandem::cuda

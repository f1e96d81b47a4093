// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

#include "device/cuda/kernels/meeting.hpp"

namespace tandem::cuda {

struct CopyInMeetingArguments {
  struct Bytes {
    std::byte* to;
    const std::byte* from;
    std::size_t count;
  };
  Bytes copies[max_reduce_operands];
  std::int32_t copy_count;
  Meeting meeting;
};

struct SpreadInMeetingArguments {
  std::byte* to[max_reduce_operands];
  const std::byte* from;
  std::size_t count;
  std::int32_t to_count;
  Meeting meeting;
};

/// Both launches need at least one peer.
[[nodiscard]] cudaError_t launch_copy_in_meeting(const CopyInMeetingArguments& arguments, int blocks,
                                                 cudaStream_t stream);
[[nodiscard]] cudaError_t launch_spread_in_meeting(const SpreadInMeetingArguments& arguments, int blocks,
                                                   cudaStream_t stream);
[[nodiscard]] cudaError_t load_copy_in_meeting_kernels();

}  // namespace tandem::cuda

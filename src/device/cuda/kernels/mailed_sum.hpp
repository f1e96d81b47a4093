// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

#include "tandem/device/mailed_sum.hpp"
#include "tandem/device/reduce.hpp"

namespace tandem::cuda {

/// `MailedSum` by value: 63 peers are 1.5 KiB of the 4 KiB that a kernel's parameters may take.
struct MailedSumArguments {
  MailPeer peers[max_reduce_operands - 1];
  std::int32_t peer_count;
  std::int32_t rank;
  const void* input;
  void* out;
  std::int64_t count;
  std::int64_t slice;  // elements of a lane
  std::size_t lane_pitch;
  std::size_t turn_pitch;
  std::uint32_t operation;
  WaitControl* control;
};

/// True if there is a kernel for sums of this dtype.
[[nodiscard]] bool can_sum_mail(DType dtype) noexcept;
/// One block for each of the `lanes`, which all have elements; there is at least one peer.
[[nodiscard]] cudaError_t launch_mailed_sum(const MailedSumArguments& arguments, DType dtype, int lanes,
                                            cudaStream_t stream);
[[nodiscard]] cudaError_t load_mailed_sum_kernels();

}  // namespace tandem::cuda

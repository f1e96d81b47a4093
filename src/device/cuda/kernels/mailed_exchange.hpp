// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

#include "tandem/device/mailed_exchange.hpp"
#include "tandem/device/reduce.hpp"

#include "device/cuda/kernels/epilogue.hpp"

namespace tandem::cuda {

/// `MailedExchange` by value: 63 peers are 1.5 KiB of the 4 KiB that a kernel's parameters may take.
struct MailedExchangeArguments {
  PeerWords peers[max_reduce_operands - 1];
  std::int32_t peer_count;
  std::int32_t rank;
  const void* input;
  void* out;
  std::int64_t count;
  std::int64_t shard;
  std::int64_t length;
  std::int64_t input_begin;  // index in the whole tensor of the first element of `input`
  std::int64_t out_begin;
  Epilogue epilogue;
  std::int64_t slice;
  std::size_t lane_pitch;
  std::size_t turn_pitch;
  std::size_t packet_box;
  bool gathers;  // two_shot: the sums are sent to all peers
  std::uint32_t operation;
  WaitControl* control;
};

/// MailedExchangeArguments for the form `parts`, with the parts by rank: 2 KiB that the other forms need not pass.
struct MailedPartsArguments : MailedExchangeArguments {
  MailedPart parts[max_reduce_operands];
};
static_assert(sizeof(MailedPartsArguments) <= 4096);

/// True if there is a kernel for this form and dtype.
[[nodiscard]] bool can_exchange_mail(MailedForm form, DType dtype) noexcept;
/// Both launch one block for each of the `lanes`, and need at least one peer.
[[nodiscard]] cudaError_t launch_mailed_exchange(const MailedExchangeArguments& arguments, MailedForm form, DType dtype,
                                                 int lanes, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_mailed_exchange(const MailedPartsArguments& arguments, DType dtype, int lanes,
                                                 cudaStream_t stream);
[[nodiscard]] cudaError_t load_mailed_exchange_kernels();

}  // namespace tandem::cuda

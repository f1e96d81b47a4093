// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/meeting.hpp"
#include "tandem/device/reduce.hpp"

namespace tandem::cuda {

/// `MeetingBlocks` by value: 63 peers are 1.5 KiB of the 4 KiB that a kernel's parameters may take.
struct Meeting {
  PeerWords peers[max_reduce_operands - 1];
  std::int32_t peer_count;
  std::size_t pitch;
  std::uint32_t operation;
  WaitControl* control;
};

}  // namespace tandem::cuda

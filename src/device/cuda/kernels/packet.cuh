// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/device/mail.hpp"

#include "device/cuda/kernels/signal.cuh"

namespace tandem::cuda {

// One access of 16 bytes is one access in PTX's memory model, too, unlike a vector of two: nobody sees half of it.

__device__ inline MailPacket load_packet(const MailPacket* packet) {
  MailPacket value;
  asm volatile("{ .reg .b128 both; ld.relaxed.sys.b128 both, [%2]; mov.b128 {%0, %1}, both; }"
               : "=l"(value.bytes), "=l"(value.number)
               : "l"(packet)
               : "memory");
  return value;
}

__device__ inline void store_packet(MailPacket* packet, const MailPacket& value) {
  asm volatile("{ .reg .b128 both; mov.b128 both, {%1, %2}; st.relaxed.sys.b128 [%0], both; }" ::"l"(packet),
               "l"(value.bytes), "l"(value.number)
               : "memory");
}

/// Waits for the packet with this number, of which `value` is what was last seen in its place; `wait` says whose it is.
__device__ inline void await_packet(MailPacket& value, const MailPacket* packet, std::uint64_t number,
                                    const SignalWait& wait, WaitControl* control) {
  if (value.number == number) return;
  Patience patience(wait, control);
  while (patience.lasts(number, value.number)) {
    value = load_packet(packet);
    if (value.number == number) return;
  }
}

}  // namespace tandem::cuda

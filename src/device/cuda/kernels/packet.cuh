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

/// What the waits of a block share: every thread waits for packets of its own, but only one of them at a time looks at
/// the host's memory, which that many would hold up for 100 µs, unless a wait has seen an abort; and once one has
/// ended, all do. They share a deadline: it begins once for an exchange, also where that waits for inputs and then for
/// sums.
class BlockPatience {
 public:
  /// By all threads, in the block's shared memory.
  __device__ void begin() {
    if (threadIdx.x == 0) {
      begin_ = now_ns();
      next_poll_ = begin_ + before_first_poll_ns();
      ended_ = 0;
    }
    __syncthreads();
  }

  /// Waits for the packet with this number, of which `value` is what was last seen in its place; `wait` says whose it
  /// is.
  __device__ void await(MailPacket& value, const MailPacket* packet, std::uint64_t number, const SignalWait& wait,
                        WaitControl* control) {
    unsigned sleep_ns = 16;
    for (unsigned looks = 1; value.number != number; ++looks) {
      if (ended()) return;
      const bool polls = is_my_turn_to_poll() || (looks % looks_between_hints == 0 && may_be_aborted(control));
      const auto has_come = [&] { return load_packet(packet).number == number; };
      if (polls && !may_wait_on(control, wait, number, value.number, now_ns() - begin_, has_come)) {
        *const_cast<volatile unsigned*>(&ended_) = 1;
        return;
      }
      __nanosleep(sleep_ns);
      sleep_ns = sleep_ns < max_sleep_ns ? sleep_ns * 2 : max_sleep_ns;
      value = load_packet(packet);
    }
  }

  /// What was awaited has not come to all threads, and will not.
  [[nodiscard]] __device__ bool ended() const { return *const_cast<const volatile unsigned*>(&ended_) != 0; }

 private:
  __device__ bool is_my_turn_to_poll() {
    const unsigned long long next = *const_cast<const volatile unsigned long long*>(&next_poll_);
    const std::uint64_t now = now_ns();
    return now >= next && atomicCAS(&next_poll_, next, now + between_polls_ns()) == next;
  }

  unsigned long long begin_;
  unsigned long long next_poll_;
  unsigned ended_;
};

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/device/mail.hpp"
#include "tandem/device/signal_device.cuh"

namespace tandem::cuda {

// A .b128 access is a single access in PTX's memory model, unlike a vector of two .b64: no reader sees half of it.

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

/// State shared by the waits of a block. Every thread waits for its own packets, but only one at a time polls host
/// memory, since polls by all would take 100 µs (unless a wait has seen an abort); once one wait has failed, all end.
/// They share one deadline per exchange, even if it waits first for inputs and then for sums.
class BlockPatience {
 public:
  /// Called by all threads of the block, in whose shared memory this object is.
  __device__ void begin() {
    if (threadIdx.x == 0) {
      begin_ = now_ns();
      next_poll_ = begin_ + before_first_poll_ns();
      ended_ = 0;
    }
    __syncthreads();
  }

  /// Waits until the packet has this number. `value` is what was last read from `packet`; its bytes become those that
  /// came. `wait` identifies the peer.
  __device__ void await(MailPacket& value, const MailPacket* packet, std::uint64_t number, SignalWait wait,
                        WaitControl* control) {
    if (value.number != number) value.bytes = poll(packet, number, wait, control);
  }

  /// Whether a wait has failed: some thread has not received its packet, and will not.
  [[nodiscard]] __device__ bool ended() const { return *const_cast<const volatile unsigned*>(&ended_) != 0; }

 private:
  /// The bytes of the packet once it has this number, or any if the wait has failed. Not inline: kernels wait in many
  /// places, and less code takes less time (docs/performance/gpu_notes/kernels_of_collectives.md, "The smallest
  /// all_reduces want little code").
  __device__ __noinline__ std::uint64_t poll(const MailPacket* packet, std::uint64_t number, SignalWait wait,
                                             WaitControl* control) {
    unsigned sleep_ns = 16;
    for (unsigned looks = 1;; ++looks) {
      const MailPacket value = load_packet(packet);
      if (value.number == number || ended()) return value.bytes;
      const bool polls = is_my_turn_to_poll() || (looks % looks_between_hints == 0 && may_be_aborted(control));
      const auto has_come = [&] { return load_packet(packet).number == number; };
      if (polls && !may_wait_on(control, wait, number, value.number, now_ns() - begin_, has_come)) {
        *const_cast<volatile unsigned*>(&ended_) = 1;
        return value.bytes;
      }
      __nanosleep(sleep_ns);
      sleep_ns = sleep_ns < max_sleep_ns ? sleep_ns * 2 : max_sleep_ns;
    }
  }

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

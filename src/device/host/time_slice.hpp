// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

namespace tandem {

/// How long the calling thread runs at a time while its core is shared. A thread with a short slice can run soon after
/// it wakes, ahead of one that computes. Needs no privilege; Linux before 6.12 ignores it.
enum class TimeSlice : bool { usual, shortest };

inline thread_local TimeSlice time_slice_of_this_thread = TimeSlice::usual;

[[nodiscard]] inline bool has_shortest_time_slice() noexcept {
  return time_slice_of_this_thread == TimeSlice::shortest;
}

inline void set_time_slice(TimeSlice slice) noexcept {
  // The kernel's `struct sched_attr`, which Debian 12's C library does not declare.
  struct Attributes {
    std::uint32_t size;
    std::uint32_t policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime;
    std::uint64_t deadline;
    std::uint64_t period;
  };
  Attributes attributes{};
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  attributes.size = sizeof(attributes);
  attributes.runtime = slice == TimeSlice::shortest ? 100'000 : 0;
  if (::syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) time_slice_of_this_thread = slice;
}

}  // namespace tandem

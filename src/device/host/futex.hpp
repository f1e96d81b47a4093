// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <climits>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tandem {

/// Whether a futex is used by one process only, or is in memory that processes share.
enum class FutexScope : bool { process, shared };

/// Sleeps while the 32-bit word at `word` holds `expected`, for at most `limit`. May wake spuriously.
inline void futex_wait(const void* word, std::uint32_t expected, std::chrono::nanoseconds limit,
                       FutexScope scope) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec span{.tv_sec = seconds.count(), .tv_nsec = (limit - seconds).count()};
  ::syscall(SYS_futex, word, scope == FutexScope::shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, expected, &span, nullptr,
            0);
}

inline void futex_wake_all(const void* word, FutexScope scope) noexcept {
  ::syscall(SYS_futex, word, scope == FutexScope::shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
            0);
}

/// The low half of a 64-bit counter, which changes with every count, for use as a futex. Before and after the sleep the
/// whole counter must be compared: the half alone wraps.
inline const void* futex_half(const void* counter) noexcept {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half comes first");
  return counter;
}

/// Tells the core that this thread spins.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_fetch.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>

#include "tandem/base/trace.hpp"

#include "device/host/host_copy.hpp"
#include "device/host/host_signal.hpp"

namespace tandem {

namespace {

// Linux moves at most 2 GiB less a page in one call.
constexpr std::size_t most_at_once = std::size_t{1} << 30;

// After ESRCH, a fetch waits for as long as any wait: a killed peer's memory is gone before other ranks hear of its
// death, because Linux keeps its sockets open while it frees the memory, which can take seconds. After other errors
// (the peer's team failed, say, and its caller then freed the buffers) the news comes soon.
constexpr std::uint64_t news_comes_within_ns = 1'000'000'000;

#if defined(__SANITIZE_THREAD__)
constexpr bool sees_all_reads = true;  // lets ThreadSanitizer see what ranks of one process read of each other
#else
constexpr bool sees_all_reads = false;
#endif

constexpr std::size_t page = 4096;
constexpr std::size_t detour_bytes = 8 * page;  // whole pages, few enough to stay in cache
constexpr std::size_t worth_a_detour = page / 2;

int read_directly(std::int64_t process, const std::byte* source, std::byte* destination, std::size_t bytes) noexcept {
  while (bytes != 0) {
    const std::size_t part = std::min(bytes, most_at_once);
    const iovec local{.iov_base = destination, .iov_len = part};
    const iovec remote{.iov_base = const_cast<std::byte*>(source), .iov_len = part};
    const ssize_t moved = ::process_vm_readv(static_cast<pid_t>(process), &local, 1, &remote, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return errno;
    if (moved == 0) return EFAULT;
    destination += moved;
    source += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return 0;
}

/// Reads parts into a buffer that has the source's offset within a page, and copies them from there.
int read_by_detour(std::int64_t process, const std::byte* source, std::byte* destination, std::size_t bytes) noexcept {
  alignas(page) std::byte detour[detour_bytes + page];
  std::byte* const there = detour + reinterpret_cast<std::uintptr_t>(source) % page;
  while (bytes != 0) {
    const std::size_t part = std::min(bytes, detour_bytes);
    if (const int error = read_directly(process, source, there, part); error != 0) return error;
    copy_bytes(destination, there, part, Stores::cached);
    destination += part;
    source += part;
    bytes -= part;
  }
  return 0;
}

}  // namespace

int read_process_memory(std::int64_t process, const void* address, void* to, std::size_t bytes) noexcept {
  if constexpr (sees_all_reads) {
    if (process == ::getpid()) {
      copy_bytes(to, address, bytes, Stores::cached);
      return 0;
    }
  }
  const bool detours = bytes >= worth_a_detour && string_instruction_falls(to, address);
  return (detours ? read_by_detour : read_directly)(process, static_cast<const std::byte*>(address),
                                                    static_cast<std::byte*>(to), bytes);
}

void fetch_now(const Fetch& fetch, WaitControl& control) noexcept {
  if (aborted(control)) return;  // the wait before this may have ended without a loan
  const int error = read_process_memory(fetch.process, fetch.loan->begin + fetch.offset, fetch.dst, fetch.bytes);
  if (error == 0) return;
  const std::int64_t began = Trace::now_ns();
  const std::uint64_t patience = error == ESRCH ? UINT64_MAX : news_comes_within_ns;
  while (!aborted(control)) {
    const auto waited = static_cast<std::uint64_t>(Trace::now_ns() - began);
    const bool gone = departed(control, fetch.peer);
    if (gone || waited >= std::min(timeout_of(control), patience)) {
      return fail(control, {.operation = fetch.operation,
                            .peer = fetch.peer,
                            .channel = 0,
                            .expected = 0,
                            .seen = 0,
                            .waited_ns = waited,
                            .error = error,
                            .departed = gone,
                            .threw = 0});
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace tandem

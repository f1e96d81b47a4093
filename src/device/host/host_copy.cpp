// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_copy.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "device/host/vector_isa.hpp"

namespace tandem {

namespace {

// Measured with ranks that copy to each other: what smaller outputs store is still cached when it is read next.
constexpr std::size_t copies_stream_from = std::size_t{4} << 20;
constexpr std::size_t sums_stream_from = std::size_t{4} << 20;
// For shorter rows the two partial cache lines at the ends cost too much.
constexpr std::size_t streaming_row = 4096;
constexpr std::size_t page = 4096;
constexpr std::size_t a_little_further = 32;  // into a page; on Zen 3: at 31 bytes 1.5 GB/s, at 32 as fast as at 0

// Sanitizers do not track streaming stores.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
constexpr bool has_streaming = true;

[[gnu::target("avx2")]] void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  constexpr std::size_t line = 64;
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % line;
  const std::size_t head = std::min(bytes, misaligned == 0 ? 0 : line - misaligned);
  if (head != 0) std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= line; bytes -= line) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + 1);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + 1, high);
    to += line;
    from += line;
  }
  if (bytes != 0) std::memcpy(to, from, bytes);
}

[[gnu::target("avx2")]] void copy_vectors(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  constexpr std::size_t vector = sizeof(__m256i);
  const std::size_t head = vector - reinterpret_cast<std::uintptr_t>(to) % vector;
  std::memcpy(to, from, vector);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= 4 * vector; bytes -= 4 * vector) {
    const auto* const source = reinterpret_cast<const __m256i*>(from);
    auto* const destination = reinterpret_cast<__m256i*>(to);
    const __m256i first = _mm256_loadu_si256(source);
    const __m256i second = _mm256_loadu_si256(source + 1);
    const __m256i third = _mm256_loadu_si256(source + 2);
    const __m256i fourth = _mm256_loadu_si256(source + 3);
    _mm256_store_si256(destination, first);
    _mm256_store_si256(destination + 1, second);
    _mm256_store_si256(destination + 2, third);
    _mm256_store_si256(destination + 3, fourth);
    to += 4 * vector;
    from += 4 * vector;
  }
  if (bytes != 0) std::memcpy(to, from, bytes);
}

// From 2 KiB on, memcpy uses the CPU's string instruction. That is fastest up to some 64 KiB on Intel's CPUs and some
// 512 KiB on AMD's Zen 5, and as fast as vectors beyond. On earlier Zens it drops to 2 GB/s if the destination lies
// slightly further into its page than the source, as a large std::vector's elements do with a page-aligned source.
constexpr std::size_t string_instruction_from = std::size_t{2} << 10;
constexpr std::size_t vectors_from_on_intel = std::size_t{256} << 10;
constexpr std::size_t vectors_from_elsewhere = std::size_t{1} << 20;

/// Whether the string instruction slows down in that case. No CPU flag tells, but it then takes some 20 times as long.
/// (Two pages are too few to see it: a Zen 3 takes three times as long for two of them, 18 times for four.)
bool measures_a_fall() noexcept {
  constexpr std::size_t bytes = 4 * page;
  constexpr int tries = 5;
  alignas(page) static std::array<std::byte, bytes + page> source{};
  alignas(page) static std::array<std::byte, bytes + page> destination{};
  const auto shortest = [](std::size_t ahead) {
    auto best = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < tries; ++i) {
      const auto began = std::chrono::steady_clock::now();
      std::memcpy(destination.data() + ahead, source.data(), bytes);
      best = std::min(best, std::chrono::steady_clock::now() - began);
    }
    return best;
  };
  const auto plain = shortest(0);
  return std::max({shortest(1), shortest(16), shortest(64)}) > 6 * plain;
}

bool has_string_instruction_that_falls() noexcept {
  static const bool falls = measures_a_fall();
  return falls;
}

std::size_t vectors_from() noexcept {
  static const std::size_t bytes = [] {
    __builtin_cpu_init();
    if (vector_isa() != VectorIsa::avx2) return SIZE_MAX;
    if (__builtin_cpu_is("intel")) return vectors_from_on_intel;
    return has_string_instruction_that_falls() ? string_instruction_from : vectors_from_elsewhere;
  }();
  return bytes;
}
#else
constexpr bool has_streaming = false;

bool has_string_instruction_that_falls() noexcept { return false; }

std::size_t vectors_from() noexcept { return SIZE_MAX; }

void copy_vectors(std::byte* to, const std::byte* from, std::size_t bytes) noexcept { std::memcpy(to, from, bytes); }

void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept { std::memcpy(to, from, bytes); }
#endif

}  // namespace

Stores best_stores(Stored what, std::size_t bytes) noexcept {
  const std::size_t from = what == Stored::copy ? copies_stream_from : sums_stream_from;
  return has_streaming && bytes >= from && vector_isa() == VectorIsa::avx2 ? Stores::streaming : Stores::cached;
}

void copy_bytes(void* to, const void* from, std::size_t bytes, Stores stores) noexcept {
  if (stores == Stores::streaming) {
    stream_bytes(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  } else if (bytes >= vectors_from()) {
    copy_vectors(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  } else if (bytes != 0) {
    std::memcpy(to, from, bytes);
  }
}

bool string_instruction_falls(const void* to, const void* from) noexcept {
  const std::size_t further = (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % page;
  return further != 0 && further < a_little_further && has_string_instruction_that_falls();
}

void order_streaming_stores() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

void copy_now(const Copy& copy) noexcept {
  const std::size_t whole = std::max(copy.bytes * copy.rows, copy.part_of);
  const Stores stores = copy.bytes >= streaming_row ? best_stores(Stored::copy, whole) : Stores::cached;
  for (std::size_t row = 0; row < copy.rows; ++row) {
    copy_bytes(static_cast<std::byte*>(copy.dst) + row * copy.dst_pitch,
               static_cast<const std::byte*>(copy.src) + row * copy.src_pitch, copy.bytes, stores);
  }
  if (stores == Stores::streaming) order_streaming_stores();
}

}  // namespace tandem

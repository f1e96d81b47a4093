// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tandem {

/// One counter of a signal pad. It lives in the memory of the rank that waits on it and is written by one peer. It only
/// grows. What the peer writes, and the owner looks at over and over, has a cache line of its own. Host and device code
/// agree on this layout.
struct alignas(64) SignalWord {
  std::uint64_t taken;              ///< how many signals the owner's waits have used up; the owner's alone
  std::uint64_t put;                ///< how many signals the owner has put to the *peer*; the owner's alone
  alignas(64) std::uint64_t value;  ///< how many signals have been put; released by the writer at system scope
  std::uint32_t sleepers;           ///< host: waiters that sleep on the futex of `value`'s low half
};
static_assert(sizeof(SignalWord) == 128 && std::is_trivially_copyable_v<SignalWord>);

/// Adds one to `mine->put` and releases that count, at system scope, into `theirs->value`: everything that this
/// stream did before is visible to who acquires it.
struct SignalPut {
  SignalWord* mine = nullptr;    ///< this rank's word for the peer, in this rank's memory
  SignalWord* theirs = nullptr;  ///< the peer's word for this rank, in the peer's memory
  bool counted = false;          ///< the one has been added (Device::wait_and_count): the count is only released
};

/// Adds `count` to `word->taken` and waits until `word->value` has reached it; acquires at system scope.
struct SignalWait {
  SignalWord* word = nullptr;
  std::uint32_t count = 1;
  std::int32_t peer = -1;       ///< world rank that is waited for: for the error, and since it may depart
  std::uint32_t channel = 0;    ///< for the error
  std::uint32_t operation = 0;  ///< which of the team's operations waits, for the error
};

/// A peer's word for this rank and this rank's for it, the first of several pairs that lie equally far apart.
struct PeerWords {
  SignalWord* theirs = nullptr;
  SignalWord* mine = nullptr;
  std::int32_t world_rank = -1;  ///< for the error, and since it may depart
};

/// At most this many puts, or waits, in one call.
inline constexpr std::size_t max_signals = 64;

/// What a wait that ended without its signal leaves behind.
struct WaitFailure {
  std::uint32_t operation;
  std::int32_t peer;
  std::uint32_t channel;
  std::uint64_t expected;
  std::uint64_t seen;
  std::uint64_t waited_ns;
  std::int32_t error;      ///< 0: a signal did not come; else the errno of a peer's memory that could not be read
  std::uint32_t departed;  ///< nonzero: no deadline had come, but the peer had ended its world
};

/// What all waits of one team on one rank watch. It lives in host memory that the device can read and write
/// (mapped on CUDA), so that an abort is a store of the CPU and needs no call of the driver.
struct alignas(64) WaitControl {
  std::uint32_t abort;       ///< nonzero: waits end at once, and nothing counts any more
  std::uint32_t departures;  ///< how many ranks have ended their worlds; if any, `departed_ranks` says which
  std::uint32_t failed;      ///< 0: none; 1: a wait is writing `failure`; 2: `failure` stands
  std::uint64_t timeout_ns;  ///< how long each wait may take
  WaitFailure failure;       ///< of the first wait that failed by itself, and so made the abort
  std::uint32_t cut_short;   ///< as `failed`, of `cut`
  WaitFailure cut;           ///< of the first wait that the abort ended: what was going on here
};
static_assert(std::is_trivially_copyable_v<WaitControl>);

/// A bit for each rank of the world, in words right behind a WaitControl. A rank that has departed sends nothing more:
/// a wait for it that has not got its signals by now ends as if at its deadline.
inline constexpr std::uint32_t ranks_in_a_word = 32;
[[nodiscard]] inline std::uint32_t* departed_ranks(WaitControl* control) noexcept {
  return reinterpret_cast<std::uint32_t*>(control + 1);
}
/// Says that a rank has departed: once, when all that it sent is there to see. By the host.
inline void mark_departed(WaitControl* control, int rank) noexcept {
  const auto bit = static_cast<std::uint32_t>(rank);
  std::uint32_t& word = departed_ranks(control)[bit / ranks_in_a_word];
  std::atomic_ref(word).fetch_or(std::uint32_t{1} << bit % ranks_in_a_word, std::memory_order_release);
  std::atomic_ref(control->departures).fetch_add(1, std::memory_order_release);  // last: it has waits look at the words
}
/// What a WaitControl takes with these words, in a world of so many ranks.
[[nodiscard]] constexpr std::size_t wait_control_bytes(int world_size) noexcept {
  const std::size_t words = (static_cast<std::size_t>(world_size) + ranks_in_a_word - 1) / ranks_in_a_word;
  return sizeof(WaitControl) + words * sizeof(std::uint32_t);
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tandem/base/concepts.hpp"

namespace tandem {

/// One counter of a signal pad, in the memory of its owner, the rank that waits on it; written by one peer. It only
/// grows. What the peer writes and the owner polls has a cache line of its own. Host and device code share this
/// layout.
struct alignas(64) SignalWord {
  std::uint64_t taken;              ///< how many signals the owner's waits have consumed; used by the owner only
  std::uint64_t put;                ///< how many signals the owner has put to the *peer*; used by the owner only
  alignas(64) std::uint64_t value;  ///< how many signals the peer has put; released by it at system scope
  std::uint32_t sleepers;           ///< host: how many waiters sleep on the futex of `value`'s low half
};
static_assert(sizeof(SignalWord) == 128 && std::is_trivially_copyable_v<SignalWord>);

/// Adds one to `mine->put` and stores that count in `theirs->value` with release at system scope: a rank that acquires
/// it sees everything that this stream did before.
struct SignalPut {
  SignalWord* mine = nullptr;    ///< this rank's word for the peer, in this rank's memory
  SignalWord* theirs = nullptr;  ///< the peer's word for this rank, in the peer's memory
  bool counted = false;          ///< already incremented (Device::wait_and_count): only release the count
};
static_assert(Plain<SignalPut>);

/// Adds `count` to `word->taken` and waits until `word->value` has reached it; acquires at system scope.
struct SignalWait {
  SignalWord* word = nullptr;
  std::uint32_t count = 1;
  std::int32_t peer = -1;       ///< world rank that is waited for: for errors, and to notice its departure
  std::uint32_t channel = 0;    ///< for errors
  std::uint32_t operation = 0;  ///< which of the team's operations waits, for errors
};
static_assert(Plain<SignalWait>);

/// A peer's word for this rank and this rank's word for the peer: the first of several pairs at a constant stride.
struct PeerWords {
  SignalWord* theirs = nullptr;
  SignalWord* mine = nullptr;
  std::int32_t world_rank = -1;  ///< the peer's, for errors and to notice its departure
};
static_assert(Plain<PeerWords>);

/// At most this many puts, or waits, in one call.
inline constexpr std::size_t max_signals = 64;

/// The facts of a wait that ended without its signal.
struct WaitFailure {
  std::uint32_t operation;
  std::int32_t peer;
  std::uint32_t channel;
  std::uint64_t expected;
  std::uint64_t seen;
  std::uint64_t waited_ns;
  std::int32_t error;      ///< 0: a signal did not come; else the errno of a failed read of a peer's memory
  std::uint32_t departed;  ///< nonzero: not a missed deadline; the peer had ended its world
  std::uint32_t threw;     ///< nonzero: not a wait; a signal was due after work of its stream that threw
};
static_assert(Plain<WaitFailure>);

/// The state that all waits of one team on one rank watch. It is in host memory that the device can read and write
/// (mapped on CUDA), so that the CPU can abort them with a store, without a driver call.
struct alignas(64) WaitControl {
  std::uint32_t abort;       ///< nonzero: waits end at once, and results are invalid
  std::uint32_t departures;  ///< how many ranks have ended their worlds; if any, `departed_ranks` says which
  std::uint32_t failed;      ///< 0: none; 1: a wait is writing `failure`; 2: `failure` is complete
  std::uint64_t timeout_ns;  ///< how long each wait may take
  WaitFailure failure;       ///< of the first wait that failed by itself, which caused the abort
  std::uint32_t cut_short;   ///< as `failed`, for `cut`
  WaitFailure cut;           ///< of the first wait that the abort ended: what this rank was doing
};
static_assert(std::is_trivially_copyable_v<WaitControl>);

/// A bit for each rank of the world, in words directly after a WaitControl. A rank that has departed sends nothing
/// more: a wait for it whose signals have not arrived ends as if at its deadline.
inline constexpr std::uint32_t ranks_in_a_word = 32;
[[nodiscard]] inline std::uint32_t* departed_ranks(WaitControl* control) noexcept {
  return reinterpret_cast<std::uint32_t*>(control + 1);
}
/// Marks a rank as departed. The host calls it, once, when everything that the rank sent is visible.
inline void mark_departed(WaitControl* control, int rank) noexcept {
  const auto bit = static_cast<std::uint32_t>(rank);
  std::uint32_t& word = departed_ranks(control)[bit / ranks_in_a_word];
  std::atomic_ref(word).fetch_or(std::uint32_t{1} << bit % ranks_in_a_word, std::memory_order_release);
  std::atomic_ref(control->departures).fetch_add(1, std::memory_order_release);  // last: makes waits read the words
}
/// The size in bytes of a WaitControl with these words, in a world of `world_size` ranks.
[[nodiscard]] constexpr std::size_t wait_control_bytes(int world_size) noexcept {
  const std::size_t words = (static_cast<std::size_t>(world_size) + ranks_in_a_word - 1) / ranks_in_a_word;
  return sizeof(WaitControl) + words * sizeof(std::uint32_t);
}

}  // namespace tandem

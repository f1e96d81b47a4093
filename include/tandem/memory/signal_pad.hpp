// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/device/signal.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// A team's signal counters in a symmetric allocation: on each rank one word for each channel and peer. Callers choose
/// channels, small numbers, to keep independent protocols apart. A view: the allocation must outlive it. All operations
/// are asynchronous and stream-ordered; ranks, channels and counts are checked before anything is written
/// (InvalidArgument, also for a default-constructed pad). A wait fails at the team's deadline, at an abort, when a
/// peer is lost, or when the rank waited for has ended its world: then the stream continues, the team has failed, and
/// `Team::synchronize` and `check` throw.
class TANDEM_API SignalPad {
 public:
  SignalPad() = default;
  /// `words[r]` is the pad in rank r's memory: `channels` × team size words.
  SignalPad(Team team, std::vector<SignalWord*> words, std::uint32_t channels, std::uint32_t operation);

  [[nodiscard]] std::uint32_t channels() const noexcept { return channels_; }
  /// A copy of this pad whose failed waits are reported as those of `operation` (see Team::register_operation).
  [[nodiscard]] SignalPad named(std::uint32_t operation) const;

  /// Signals `rank` when everything queued on `stream` before is done (release, system scope).
  void put_signal(StreamRef stream, int rank, std::uint32_t channel) const;
  /// Work queued after this starts once `count` (1 to 2^31 - 1) signals from `rank` have arrived in addition to those
  /// that earlier waits consumed (acquire).
  void wait_signal(StreamRef stream, int rank, std::uint32_t channel, std::uint32_t count = 1) const;
  /// As `put_signal` and `wait_signal`, for several ranks at once; InvalidArgument if a rank is named twice.
  void put_signals(StreamRef stream, std::span<const int> ranks, std::uint32_t channel) const;
  void wait_signals(StreamRef stream, std::span<const int> ranks, std::uint32_t channel, std::uint32_t count = 1) const;
  /// The signal that `put_signal` would put, for a caller that queues it together with a copy (Device::push), or for a
  /// kernel that puts it (tandem/device/signal_device.cuh).
  [[nodiscard]] SignalPut signal_to(int rank, std::uint32_t channel) const;
  /// What `wait_signal` would wait for, for a kernel that waits for it, watching `Team::control`.
  [[nodiscard]] SignalWait signal_from(int rank, std::uint32_t channel, std::uint32_t count = 1) const;
  /// Waits for one signal from each of `ranks` on `channel`, and counts in advance one signal to each on `channels` (1
  /// to `max_signals`) channels from `counted` on, which must be put later: by `put_counted`, or as a `signal_to` with
  /// `counted` set (see Device::wait_and_count).
  void wait_and_count(StreamRef stream, std::span<const int> ranks, std::uint32_t channel, std::uint32_t counted,
                      std::uint32_t channels = 1) const;
  void put_counted(StreamRef stream, std::span<const int> ranks, std::uint32_t channel) const;
  /// Signals each of `ranks`, then waits for one from each; one device call up to `max_signals`. InvalidArgument if
  /// this rank is among them, or if a rank is named twice.
  void exchange_signals(StreamRef stream, std::span<const int> ranks, std::uint32_t channel) const;
  /// `exchange_signals` with all other ranks. Every member calls it.
  void barrier(StreamRef stream, std::uint32_t channel) const;

 private:
  [[nodiscard]] SignalWord* word(int owner, int writer, std::uint32_t channel) const;
  [[nodiscard]] SignalPut put_to(int rank, std::uint32_t channel) const {
    return {.mine = word(team_.rank(), rank, channel), .theirs = word(rank, team_.rank(), channel)};
  }
  [[nodiscard]] SignalWait wait_for(int rank, std::uint32_t channel, std::uint32_t count) const {
    return {.word = word(team_.rank(), rank, channel),
            .count = count,
            .peer = team_.members()[static_cast<std::size_t>(rank)],
            .channel = channel,
            .operation = operation_};
  }
  void check(std::span<const int> ranks, std::uint32_t channel) const;
  void expect_count(std::uint32_t count) const;
  void put(StreamRef stream, std::span<const int> ranks, std::uint32_t channel, bool counted) const;

  Team team_;
  std::vector<SignalWord*> words_;
  std::vector<int> others_;
  std::uint32_t channels_ = 0;
  std::uint32_t operation_ = 0;
};
static_assert(Handle<SignalPad>);

}  // namespace tandem

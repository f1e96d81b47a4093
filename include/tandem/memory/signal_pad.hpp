// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/signal.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// A team's counters beside an allocation: on each rank one word for each channel and peer. A channel is a small number
/// that the caller chooses, so that independent protocols do not meet. A view: the allocation must outlive it. All
/// operations are asynchronous and in the stream's order; ranks, channels and counts are checked before anything is
/// written (InvalidArgument, also for a pad that was never made). Waits end at the team's deadline, at an abort, when a
/// peer is lost, or when who is waited for has ended its world: the stream goes on, the team has failed, and
/// `Team::synchronize` or `check` throws.
class TANDEM_API SignalPad {
 public:
  SignalPad() = default;
  /// `words[r]` is the pad in rank r's memory: `channels` × team size words.
  SignalPad(Team team, std::vector<SignalWord*> words, std::uint32_t channels, std::uint32_t operation);

  [[nodiscard]] std::uint32_t channels() const noexcept { return channels_; }
  /// The same pad, whose failed waits are reported as `operation`'s (see Team::register_operation).
  [[nodiscard]] SignalPad named(std::uint32_t operation) const;

  /// Tells `rank` that everything queued on `stream` before is done (release, system scope).
  void put_signal(StreamRef stream, int rank, std::uint32_t channel) const;
  /// What is queued after this starts once `count` more signals from `rank`, 1 to 2^31 - 1, have come than earlier
  /// waits took (acquire).
  void wait_signal(StreamRef stream, int rank, std::uint32_t channel, std::uint32_t count = 1) const;
  /// The same for several ranks at once, each named once: two signals to one rank are two calls.
  void put_signals(StreamRef stream, std::span<const int> ranks, std::uint32_t channel) const;
  void wait_signals(StreamRef stream, std::span<const int> ranks, std::uint32_t channel, std::uint32_t count = 1) const;
  /// What `put_signal` puts, for who queues it together with a copy (Device::push).
  [[nodiscard]] SignalPut signal_to(int rank, std::uint32_t channel) const;
  /// A wait for one signal from each of `ranks`, which also counts one to each on channel `counted`, that follows
  /// later: by `put_counted` or as `signal_to` with `counted` set (see Device::wait_and_count). The same on `channels`
  /// channels from that one on, 1 to `max_signals`.
  void wait_and_count(StreamRef stream, std::span<const int> ranks, std::uint32_t channel, std::uint32_t counted,
                      std::uint32_t channels = 1) const;
  void put_counted(StreamRef stream, std::span<const int> ranks, std::uint32_t channel) const;
  /// A signal to each of `ranks`, which are others, then a wait for one from each, in one step of the device.
  void exchange_signals(StreamRef stream, std::span<const int> ranks, std::uint32_t channel) const;
  /// That with every other rank. Every member calls it.
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
  void check_once(std::span<const int> ranks, std::string_view direction) const;
  void put(StreamRef stream, std::span<const int> ranks, std::uint32_t channel, bool counted) const;

  Team team_;
  std::vector<SignalWord*> words_;
  std::vector<int> others_;
  std::uint32_t channels_ = 0;
  std::uint32_t operation_ = 0;
};

}  // namespace tandem

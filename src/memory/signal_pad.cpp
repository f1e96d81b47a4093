// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/signal_pad.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/names.hpp"

namespace tandem {
namespace {

/// Calls `body.operator()<capacity>(batch)` for all of `ranks`, in batches of at most `max_signals` signals with
/// `to_each` for each rank. A few signals get a small capacity: clearing the full one would cost as much as them.
template <typename Body> void in_batches(std::span<const int> ranks, std::size_t to_each, const Body& body) {
  constexpr std::size_t few = 8;
  if (ranks.size() * to_each <= few) {
    if (!ranks.empty()) body.template operator()<few>(ranks);
    return;
  }
  while (!ranks.empty()) {
    const auto batch = ranks.first(std::min(ranks.size(), max_signals / to_each));
    body.template operator()<max_signals>(batch);
    ranks = ranks.subspan(batch.size());
  }
}

}  // namespace

SignalPad::SignalPad(Team team, std::vector<SignalWord*> words, std::uint32_t channels, std::uint32_t operation)
    : team_(std::move(team)), words_(std::move(words)), channels_(channels), operation_(operation) {
  for (int rank = 0; rank < team_.size(); ++rank) {
    if (rank != team_.rank()) others_.push_back(rank);
  }
}

SignalPad SignalPad::named(std::uint32_t operation) const {
  SignalPad pad = *this;
  pad.operation_ = operation;
  return pad;
}

SignalWord* SignalPad::word(int owner, int writer, std::uint32_t channel) const {
  return words_[static_cast<std::size_t>(owner)] + static_cast<std::size_t>(channel) * words_.size() +
         static_cast<std::size_t>(writer);
}

void SignalPad::check(std::span<const int> ranks, std::uint32_t channel) const {
  if (!team_) {
    throw InvalidArgument(
        "a signal pad that was never made is used; a symmetric allocation has one after its rendezvous");
  }
  const int size = team_.size();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int rank = ranks[i];
    if (rank < 0 || rank >= size) {
      throw InvalidArgument(format("a signal of rank {} was asked for on {}; its ranks are 0 to {}", rank,
                                   name_own_rank(team_), size - 1));
    }
    if (std::ranges::find(ranks.first(i), rank) != ranks.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw InvalidArgument(format("rank {} was named twice in one call on signals on {}; each may be named once", rank,
                                   name_own_rank(team_)));
    }
  }
  if (channel >= channels_) {
    throw InvalidArgument(format("signal channel {} was asked for on {}; the pad has channels 0 to {}", channel,
                                 name_own_rank(team_), channels_ - 1));
  }
}

void SignalPad::put_signal(StreamRef stream, int rank, std::uint32_t channel) const {
  put_signals(stream, std::span(&rank, 1), channel);
}

void SignalPad::wait_signal(StreamRef stream, int rank, std::uint32_t channel, std::uint32_t count) const {
  wait_signals(stream, std::span(&rank, 1), channel, count);
}

SignalPut SignalPad::signal_to(int rank, std::uint32_t channel) const {
  check(std::span(&rank, 1), channel);
  return put_to(rank, channel);
}

SignalWait SignalPad::signal_from(int rank, std::uint32_t channel, std::uint32_t count) const {
  check(std::span(&rank, 1), channel);
  expect_count(count);
  return wait_for(rank, channel, count);
}

void SignalPad::put_signals(StreamRef stream, std::span<const int> ranks, std::uint32_t channel) const {
  put(stream, ranks, channel, false);
}

void SignalPad::put_counted(StreamRef stream, std::span<const int> ranks, std::uint32_t channel) const {
  put(stream, ranks, channel, true);
}

void SignalPad::put(StreamRef stream, std::span<const int> ranks, std::uint32_t channel, bool counted) const {
  check(ranks, channel);
  in_batches(ranks, 1, [&]<std::size_t capacity>(std::span<const int> batch) {
    std::array<SignalPut, capacity> puts;
    std::ranges::transform(batch, puts.begin(), [&](int rank) {
      SignalPut put = put_to(rank, channel);
      put.counted = counted;
      return put;
    });
    team_.device().signal(stream, std::span(puts).first(batch.size()), team_.control());
  });
}

void SignalPad::wait_and_count(StreamRef stream, std::span<const int> ranks, std::uint32_t channel,
                               std::uint32_t counted, std::uint32_t channels) const {
  if (channels < 1 || channels > max_signals) {
    throw InvalidArgument(format("signals on {} channels were to be counted on {}; allowed: 1 to {}", channels,
                                 name_own_rank(team_), max_signals));
  }
  check(ranks, channel);
  check(ranks, counted);
  check(ranks, counted + channels - 1);
  in_batches(ranks, channels, [&]<std::size_t capacity>(std::span<const int> batch) {
    std::array<SignalPut, capacity> puts;
    std::array<SignalWait, capacity> waits;
    auto put = puts.begin();
    for (const int rank : batch) {
      for (std::uint32_t i = 0; i < channels; ++i) *put++ = put_to(rank, counted + i);
    }
    std::ranges::transform(batch, waits.begin(), [&](int rank) { return wait_for(rank, channel, 1); });
    team_.device().wait_and_count(stream, std::span(waits).first(batch.size()),
                                  std::span(puts).first(batch.size() * channels), team_.control());
  });
}

void SignalPad::expect_count(std::uint32_t count) const {
  // An arbitrary limit, well within the 64-bit counters.
  constexpr std::uint32_t most = (1U << 31U) - 1;
  if (count != 0 && count <= most) return;
  throw InvalidArgument(
      format("a wait for {} signals at once was asked for on {}; allowed: 1 to {}", count, name_own_rank(team_), most));
}

void SignalPad::wait_signals(StreamRef stream, std::span<const int> ranks, std::uint32_t channel,
                             std::uint32_t count) const {
  check(ranks, channel);
  expect_count(count);
  in_batches(ranks, 1, [&]<std::size_t capacity>(std::span<const int> batch) {
    std::array<SignalWait, capacity> waits;
    std::ranges::transform(batch, waits.begin(), [&](int rank) { return wait_for(rank, channel, count); });
    team_.device().wait(stream, std::span(waits).first(batch.size()), team_.control());
  });
}

void SignalPad::exchange_signals(StreamRef stream, std::span<const int> ranks, std::uint32_t channel) const {
  check(ranks, channel);
  if (std::ranges::find(ranks, team_.rank()) != ranks.end()) {
    throw InvalidArgument(format("{} was to exchange signals with itself; allowed: its peers", name_own_rank(team_)));
  }
  if (ranks.size() > max_signals) {  // all puts come before the first wait
    put_signals(stream, ranks, channel);
    wait_signals(stream, ranks, channel);
    return;
  }
  in_batches(ranks, 1, [&]<std::size_t capacity>(std::span<const int> batch) {
    std::array<SignalPut, capacity> puts;
    std::array<SignalWait, capacity> waits;
    std::ranges::transform(batch, puts.begin(), [&](int rank) { return put_to(rank, channel); });
    std::ranges::transform(batch, waits.begin(), [&](int rank) { return wait_for(rank, channel, 1); });
    team_.device().signal_and_wait(stream, std::span(puts).first(batch.size()), std::span(waits).first(batch.size()),
                                   team_.control());
  });
}

void SignalPad::barrier(StreamRef stream, std::uint32_t channel) const { exchange_signals(stream, others_, channel); }

}  // namespace tandem

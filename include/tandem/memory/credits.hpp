// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "tandem/base/export.hpp"
#include "tandem/memory/signal_pad.hpp"

namespace tandem {

/// The right to write into somebody's buffer, on one channel of a pad. No put goes without one: the owner of a buffer
/// grants it after the buffer's last reader, in stream order; a writer takes it before it writes. This, not a barrier,
/// makes reuse safe. A plan has one of these for each slot of its buffers, so that whatever order captured and eager
/// calls come in, a slot is written only after it was read.
class Credits {
 public:
  Credits(const SignalPad& pad, std::uint32_t channel) : pad_(&pad), channel_(channel) {}

  /// The owner: `writers` may write this rank's buffer once more.
  void grant(StreamRef stream, std::span<const int> writers) const { pad_->put_signals(stream, writers, channel_); }
  /// A writer: what follows on `stream` may write the buffers of `owners`.
  void take(StreamRef stream, std::span<const int> owners) const { pad_->wait_signals(stream, owners, channel_); }

 private:
  const SignalPad* pad_;
  std::uint32_t channel_;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/device.hpp"

namespace tandem {

/// While this lives, what its thread queues on `stream` is held back, to be handed over at once (see Device::cork): for
/// a few short operations one after the other. What is queued after it, by any thread, comes behind.
class Corked {
 public:
  Corked(Device& device, StreamRef stream) : device_(device), stream_(stream) { device.cork(stream); }
  Corked(const Corked&) = delete;
  Corked& operator=(const Corked&) = delete;
  ~Corked() { device_.uncork(stream_); }

 private:
  Device& device_;
  StreamRef stream_;
};

}  // namespace tandem

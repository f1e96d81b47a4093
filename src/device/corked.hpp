// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/device.hpp"

namespace tandem {

/// During its lifetime, work that its thread queues on `stream` may be held back and submitted together (see
/// Device::cork): for a few short operations in sequence. Work that any thread queues afterwards runs after it.
class Corked {
 public:
  [[nodiscard]] Corked(Device& device, StreamRef stream) : device_(device), stream_(stream) { device.cork(stream); }
  Corked(const Corked&) = delete;
  Corked& operator=(const Corked&) = delete;
  ~Corked() { device_.uncork(stream_); }

 private:
  Device& device_;
  StreamRef stream_;
};

}  // namespace tandem

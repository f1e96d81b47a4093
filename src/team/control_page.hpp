// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "tandem/device/signal.hpp"
#include "tandem/team/file_descriptor.hpp"

#include "team/shared_memory.hpp"

namespace tandem {

/// The WaitControl of one rank of a team, in shared memory: a page, in worlds of less than ten thousands of ranks. Its
/// owner's waits watch it; the other members read it, since no stream of its owner runs past a wait without a signal
/// before this page says so (docs/protocol, Check).
class ControlPage {
 public:
  /// A new one, zeroed. Throws OutOfMemory.
  explicit ControlPage(int world_size);
  /// A peer's, read only. Throws OutOfMemory.
  ControlPage(const FileDescriptor& shared, int world_size);

  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }
  [[nodiscard]] WaitControl* data() const noexcept { return reinterpret_cast<WaitControl*>(memory_.data()); }
  /// For the peers; it can be taken once.
  [[nodiscard]] FileDescriptor take_descriptor() noexcept { return memory_.take_descriptor(); }

 private:
  SharedMemory memory_;
};

}  // namespace tandem

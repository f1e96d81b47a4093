// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "tandem/device/signal.hpp"
#include "tandem/team/file_descriptor.hpp"

#include "team/shared_memory.hpp"

namespace tandem {

/// The WaitControl of one rank of a team, in shared memory; one page suffices for worlds of up to 30,000 ranks. Its
/// owner's waits watch it. The other members read it, too: it is marked as aborted before any stream of its owner
/// continues after a wait that ended without its signal (docs/protocol, Check).
class ControlPage {
 public:
  /// Makes this rank's own page, zeroed. Throws OutOfMemory.
  explicit ControlPage(int world_size);
  /// Maps a peer's page, read-only. Throws OutOfMemory.
  ControlPage(const FileDescriptor& shared, int world_size);

  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }
  [[nodiscard]] WaitControl* data() const noexcept { return reinterpret_cast<WaitControl*>(memory_.data()); }
  /// The descriptor to send to peers; it can be taken once.
  [[nodiscard]] FileDescriptor take_descriptor() noexcept { return memory_.take_descriptor(); }

 private:
  SharedMemory memory_;
};

}  // namespace tandem

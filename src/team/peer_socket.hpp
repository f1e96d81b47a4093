// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/team/bootstrap.hpp"

namespace tandem {

/// One rank's connection to another.
struct PeerSocket {
  PeerInfo info;
  FileDescriptor socket;     ///< connected to it; empty for the rank itself
  std::int64_t process = 0;  ///< its process id as seen by this process, for a pidfd; 0: it is in this process
};

}  // namespace tandem

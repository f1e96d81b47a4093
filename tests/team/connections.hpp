// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "team/peer_socket.hpp"

namespace tandem::testing {

/// The two ends of a connection as meshes use it.
[[nodiscard]] inline std::array<FileDescriptor, 2> connection() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    throw DeviceError("no pair of sockets could be made");
  }
  return {FileDescriptor::from_native_handle(ends[0]), FileDescriptor::from_native_handle(ends[1])};
}

/// The connections of one rank to all ranks, by its sockets to them; the one to itself is empty.
[[nodiscard]] inline std::vector<PeerSocket> peers_at(std::vector<FileDescriptor> sockets) {
  std::vector<PeerSocket> peers;
  for (FileDescriptor& socket : sockets) {
    peers.push_back({{static_cast<int>(peers.size()), ::getpid(), "here"}, std::move(socket), 0});
  }
  return peers;
}

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "team/rendezvous.hpp"

namespace tandem::testing {

/// The two ends of a connection as meshes use it.
[[nodiscard]] inline std::array<FileDescriptor, 2> connection() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    throw DeviceError("no pair of sockets could be made");
  }
  return {FileDescriptor::from_native_handle(ends[0]), FileDescriptor::from_native_handle(ends[1])};
}

/// The links of one rank to all ranks, by its sockets to them; the one to itself is empty.
[[nodiscard]] inline std::vector<Link> links_of(std::vector<FileDescriptor> sockets) {
  std::vector<Link> links;
  for (FileDescriptor& socket : sockets) {
    links.push_back({{static_cast<int>(links.size()), ::getpid(), "here"}, std::move(socket), 0});
  }
  return links;
}

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/team/file_descriptor.hpp"

namespace tandem {

// Abstract Unix sockets of messages (SOCK_SEQPACKET): they have no file, so a killed process leaves nothing behind, and
// anyone on the machine can connect to them, so each connection's credentials are checked. All are close-on-exec and
// never block; waiting is `wait_readable`'s.

/// What each of them has room to send at once.
inline constexpr std::size_t largest_message = std::size_t{64} * 1024;

/// The name of a socket of this user's: "tandem/UID/HASH OF JOB/PART".
[[nodiscard]] std::string socket_name(std::string_view job, std::string_view part);

/// A listening socket. Empty if another one has that name.
[[nodiscard]] FileDescriptor listen_at(const std::string& name);
/// A connection. Empty if nobody listens there (yet), or cannot take one more right now.
[[nodiscard]] FileDescriptor connect_to(const std::string& name);
/// The next connection that waits. Empty if there is none. Throws OutOfMemory if there is no descriptor for it.
[[nodiscard]] FileDescriptor accept_from(const FileDescriptor& listener);

struct Credentials {
  std::int64_t pid = 0;
  bool same_user = false;
};
[[nodiscard]] Credentials credentials_of(const FileDescriptor& socket);

/// Sends a short message. False if the peer is gone or does not read.
bool send_message(const FileDescriptor& socket, std::span<const std::byte> message) noexcept;

/// What came over a socket: a message, nothing yet, or the end.
struct Received {
  enum class State : unsigned char { message, nothing, end } state = State::nothing;
  std::vector<std::byte> message;
};
[[nodiscard]] Received receive_message(const FileDescriptor& socket);

/// Waits until one of these can be read or has ended. False at the deadline.
bool wait_readable(std::span<const int> sockets, std::chrono::steady_clock::time_point deadline);

/// The same file at a descriptor above what libraries use. The kernel closes a dying process's high descriptors first,
/// so peers hear of its death before drivers have taken theirs down. Stays where it is if that cannot be.
[[nodiscard]] FileDescriptor move_high(FileDescriptor descriptor) noexcept;

/// A second descriptor of the same file. Throws OutOfMemory.
[[nodiscard]] FileDescriptor duplicate(const FileDescriptor& descriptor);

}  // namespace tandem

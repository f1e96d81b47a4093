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

// Abstract Unix sockets for messages (SOCK_SEQPACKET): they have no file, so a killed process leaves nothing behind.
// Any user of the machine can connect to them, so callers check the credentials of each connection. All sockets are
// close-on-exec and non-blocking; to wait, use `wait_readable`.

/// The size of the largest message that each of them can send, in bytes.
inline constexpr std::size_t largest_message = std::size_t{64} * 1024;

/// The name of one of this user's sockets: "tandem/UID/HASH OF JOB/PART".
[[nodiscard]] std::string socket_name(std::string_view job, std::string_view part);

/// A listening socket. Empty if the name is in use.
[[nodiscard]] FileDescriptor listen_at(const std::string& name);
/// A connection. Empty if there is no listener (yet), or if its backlog is full.
[[nodiscard]] FileDescriptor connect_to(const std::string& name);
/// The next pending connection. Empty if there is none. Throws OutOfMemory if there is no descriptor for it.
[[nodiscard]] FileDescriptor accept_from(const FileDescriptor& listener);

struct Credentials {
  std::int64_t pid = 0;
  bool same_user = false;
};
[[nodiscard]] Credentials credentials_of(const FileDescriptor& socket);

/// Sends a short message. False if the peer is gone, or does not read and its buffer is full.
bool send_message(const FileDescriptor& socket, std::span<const std::byte> message) noexcept;

/// What a socket delivered: a message, nothing yet, or the end of the connection.
struct Received {
  enum class State : std::uint8_t { message, nothing, end } state = State::nothing;
  std::vector<std::byte> message;
};
[[nodiscard]] Received receive_message(const FileDescriptor& socket);

/// Waits until one of these is readable or its connection has ended. False at the deadline.
bool wait_readable(std::span<const int> sockets, std::chrono::steady_clock::time_point deadline);

/// Moves a file to a descriptor above those that libraries use. The kernel closes a dying process's high descriptors
/// first, so peers notice its death before its drivers' files are torn down. If that fails, returns it unchanged.
[[nodiscard]] FileDescriptor move_high(FileDescriptor descriptor) noexcept;

/// Throws InvalidArgument unless this descriptor is open.
void expect_open(const FileDescriptor& descriptor);
/// A second descriptor of the same file. Throws OutOfMemory, or InvalidArgument if it is not open.
[[nodiscard]] FileDescriptor duplicate(const FileDescriptor& descriptor);

}  // namespace tandem

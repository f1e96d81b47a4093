// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/team/file_descriptor.hpp"

namespace tandem {

// Messages with file descriptors, over the sockets of `socket.hpp`. Neither function blocks.

/// The most descriptors in one message; Linux's own limit is 253.
inline constexpr std::size_t max_passed_descriptors = 120;

/// The outcome of sending a message: it was sent; the socket is full; the kernel lacks memory for it; the peer has
/// closed its end.
enum class Sending : std::uint8_t { sent, full, short_of_memory, ended };

/// Sends a header and a payload as one message, with copies of the descriptors.
[[nodiscard]] Sending send_with_descriptors(const FileDescriptor& socket, std::span<const std::byte> header,
                                            std::span<const std::byte> payload,
                                            std::span<const FileDescriptor> descriptors) noexcept;

/// What a socket delivered: a message, nothing yet, or the end of the connection.
struct ReceivedWithDescriptors {
  enum class State : std::uint8_t { message, nothing, end } state = State::nothing;
  std::span<const std::byte> message{};  // in the caller's buffer
  std::vector<FileDescriptor> descriptors{};
  bool dropped = false;  // descriptors were lost, because too many files are open
};
/// Receives the next message into a buffer, which must be large enough for all of it.
[[nodiscard]] ReceivedWithDescriptors receive_with_descriptors(const FileDescriptor& socket,
                                                               std::span<std::byte> buffer);

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "team/socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/descriptor_limit.hpp"

namespace tandem {
namespace {

constexpr std::size_t max_short_message = 128 * 1024;

struct Address {
  sockaddr_un value{};
  socklen_t length = 0;

  explicit Address(const std::string& name) {
    value.sun_family = AF_UNIX;
    const std::size_t size = std::min(name.size(), sizeof(value.sun_path) - 1);
    std::memcpy(value.sun_path + 1, name.data(), size);  // the leading zero makes it abstract
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

/// A message larger than the send buffer could never be sent. Most systems' default size is large enough.
void make_room_to_send(const FileDescriptor& socket) {
  constexpr int wanted = 2 * static_cast<int>(largest_message);
  int bytes = 0;
  socklen_t size = sizeof bytes;
  const auto is_enough = [&] {
    return ::getsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, &size) == 0 && bytes >= wanted;
  };
  if (is_enough()) return;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
  if (is_enough()) return;
  throw DeviceError(
      format("a Unix socket can have {} bytes on their way; {} are needed: see net.core.wmem_max", bytes, wanted));
}

FileDescriptor make_socket() {
  auto socket = FileDescriptor::from_native_handle(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw DeviceError(format("a Unix socket could not be made: {}", std::strerror(errno)));
  make_room_to_send(socket);
  return socket;
}

}  // namespace

std::string socket_name(std::string_view job, std::string_view part) {
  // FNV-1a: a job's name may be too long for a socket's name. Ranks compare the full names when they connect.
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  return format("tandem/{}/{:016x}/{}", ::geteuid(), hash, part);
}

FileDescriptor listen_at(const std::string& name) {
  FileDescriptor socket = make_socket();
  const Address address(name);
  if (::bind(socket.get(), address.get(), address.length) != 0) {
    if (errno == EADDRINUSE) return {};
    throw DeviceError(format("the socket '@{}' could not be bound: {}", name, std::strerror(errno)));
  }
  if (::listen(socket.get(), 1024) != 0) {
    throw DeviceError(format("the socket '@{}' could not listen: {}", name, std::strerror(errno)));
  }
  return socket;
}

FileDescriptor connect_to(const std::string& name) {
  FileDescriptor socket = make_socket();
  const Address address(name);
  if (::connect(socket.get(), address.get(), address.length) == 0) return socket;
  if (errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR) return {};
  throw DeviceError(format("the socket '@{}' could not be reached: {}", name, std::strerror(errno)));
}

FileDescriptor accept_from(const FileDescriptor& listener) {
  auto accepted =
      FileDescriptor::from_native_handle(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (accepted) make_room_to_send(accepted);
  if (accepted || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return accepted;
  // The connection stays in the backlog, so that polling the listener would succeed forever.
  throw OutOfMemory(
      format("a connection could not be accepted: {}; {}", std::strerror(errno), describe_descriptor_limit()));
}

Credentials credentials_of(const FileDescriptor& socket) {
  ucred found{};
  socklen_t length = sizeof(found);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &found, &length) != 0) return {};
  return {found.pid, found.uid == ::geteuid()};
}

bool send_message(const FileDescriptor& socket, std::span<const std::byte> message) noexcept {
  while (true) {
    if (::send(socket.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

Received receive_message(const FileDescriptor& socket) {
  std::vector<std::byte> message(max_short_message);
  // A connection's error (the peer closed it with our message unread) is reported once, before the data that it sent.
  for (int attempt = 0; attempt < 8; ++attempt) {
    const ssize_t size = ::recv(socket.get(), message.data(), message.size(), MSG_DONTWAIT);
    if (size > 0) {
      message.resize(static_cast<std::size_t>(size));
      return {Received::State::message, std::move(message)};
    }
    if (size == 0) return {Received::State::end, {}};
    if (errno == EAGAIN) return {};
  }
  return {Received::State::end, {}};
}

bool wait_readable(std::span<const int> sockets, std::chrono::steady_clock::time_point deadline) {
  std::vector<pollfd> polled;
  for (const int fd : sockets) polled.push_back({fd, POLLIN, 0});
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto slice = std::clamp<std::int64_t>(left.count(), 0, 60'000);
    const int ready = ::poll(polled.data(), polled.size(), static_cast<int>(slice));
    if (ready > 0) return true;
    if (ready == 0 && left.count() <= 0) return false;
    if (ready < 0 && errno != EINTR) throw DeviceError(format("poll failed: {}", std::strerror(errno)));
  }
}

FileDescriptor move_high(FileDescriptor descriptor) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return descriptor;
  const auto floor = static_cast<int>(std::min<rlim_t>(limit.rlim_cur - limit.rlim_cur / 4, 60'000));
  const int moved = ::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, floor);
  return moved < 0 ? std::move(descriptor) : FileDescriptor::from_native_handle(moved);
}

void expect_open(const FileDescriptor& descriptor) {
  if (::fcntl(descriptor.get(), F_GETFD) < 0) {
    throw InvalidArgument(format("file descriptor {} is not open", descriptor.get()));
  }
}

FileDescriptor duplicate(const FileDescriptor& descriptor) {
  expect_open(descriptor);
  auto copy = FileDescriptor::from_native_handle(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    throw OutOfMemory(format("file descriptor {} could not be duplicated: {}; {}", descriptor.get(),
                             std::strerror(errno), describe_descriptor_limit()));
  }
  return copy;
}

}  // namespace tandem

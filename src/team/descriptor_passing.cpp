// SPDX-License-Identifier: Apache-2.0
#include "team/descriptor_passing.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

namespace tandem {

namespace {

constexpr std::size_t control_bytes = CMSG_SPACE(max_passed_descriptors * sizeof(int));

iovec part(std::span<const std::byte> bytes) noexcept {
  return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};  // sendmsg only reads
}

}  // namespace

Sending send_with_descriptors(const FileDescriptor& socket, std::span<const std::byte> header,
                              std::span<const std::byte> payload,
                              std::span<const FileDescriptor> descriptors) noexcept {
  std::array<iovec, 2> parts{part(header), part(payload)};
  alignas(cmsghdr) std::array<char, control_bytes> control{};
  msghdr envelope{};
  envelope.msg_iov = parts.data();
  envelope.msg_iovlen = parts.size();
  if (!descriptors.empty()) {
    const std::size_t size = descriptors.size() * sizeof(int);
    envelope.msg_control = control.data();
    envelope.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const rights = CMSG_FIRSTHDR(&envelope);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(size);
    std::array<int, max_passed_descriptors> raw{};
    std::ranges::transform(descriptors, raw.begin(), &FileDescriptor::get);
    std::memcpy(CMSG_DATA(rights), raw.data(), size);
  }
  while (::sendmsg(socket.get(), &envelope, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    switch (errno) {
      case EINTR: continue;
      case EAGAIN: return Sending::full;
      case ENOBUFS:
      case ENOMEM:
      case ETOOMANYREFS: return Sending::short_of_memory;
      default: return Sending::ended;
    }
  }
  return Sending::sent;
}

ReceivedWithDescriptors receive_with_descriptors(const FileDescriptor& socket, std::span<std::byte> buffer) {
  // A socket reports an error (a reset) once, and then still delivers what the peer sent before: read on after errors.
  constexpr int most_errors = 3;
  for (int errors = 0;;) {
    iovec whole{.iov_base = buffer.data(), .iov_len = buffer.size()};
    alignas(cmsghdr) std::array<char, control_bytes> control{};
    msghdr envelope{};
    envelope.msg_iov = &whole;
    envelope.msg_iovlen = 1;
    envelope.msg_control = control.data();
    envelope.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket.get(), &envelope, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return {};
    if (size < 0 && ++errors <= most_errors) continue;
    if (size <= 0) return {.state = ReceivedWithDescriptors::State::end};

    ReceivedWithDescriptors received{.state = ReceivedWithDescriptors::State::message,
                                     .message = buffer.first(static_cast<std::size_t>(size)),
                                     .dropped = (envelope.msg_flags & MSG_CTRUNC) != 0};
    for (cmsghdr* rights = CMSG_FIRSTHDR(&envelope); rights != nullptr; rights = CMSG_NXTHDR(&envelope, rights)) {
      if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int raw = -1;
        std::memcpy(&raw, CMSG_DATA(rights) + i * sizeof(int), sizeof(int));
        received.descriptors.push_back(FileDescriptor::from_native_handle(raw));
      }
    }
    return received;
  }
}

}  // namespace tandem

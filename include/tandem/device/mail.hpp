// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/base/dtype.hpp"
#include "tandem/device/signal.hpp"

namespace tandem {

/// A mailbox is a SignalWord whose last cache line has room for a message, which goes on in the memory behind it: who
/// has read the signal has the first of the message at hand. It begins so many bytes after the word does.
inline constexpr std::size_t mail_offset = offsetof(SignalWord, value) + 16;
static_assert(offsetof(SignalWord, sleepers) + sizeof(SignalWord::sleepers) <= mail_offset);

/// Memory of a mailbox for messages of up to `bytes`.
[[nodiscard]] constexpr std::size_t mailbox_bytes(std::size_t bytes) noexcept {
  return (mail_offset + bytes + sizeof(SignalWord) - 1) / sizeof(SignalWord) * sizeof(SignalWord);
}

/// Eight bytes of a message, and the number of the exchange that they belong to. One access of 16 bytes reads or writes
/// both: who sees the number has the bytes, without a signal. (NCCL's LL protocol, with numbers that do not come
/// again.)
struct alignas(16) MailPacket {
  std::uint64_t bytes;
  std::uint64_t number;
};

/// A packet box is behind a mailbox, in memory that nothing else writes: packets, behind one whose `number` is how many
/// turns the owner has had in packets, of which two shots are two (in the boxes of a lane's turn 0 and first peer
/// alone).
[[nodiscard]] constexpr std::size_t packet_box_bytes(std::size_t bytes) noexcept {
  return (1 + (bytes + sizeof(MailPacket::bytes) - 1) / sizeof(MailPacket::bytes)) * sizeof(MailPacket);
}

/// A message to a peer, and the wait for the peer's to this rank.
struct Letter {
  const void* message = nullptr;
  std::size_t bytes = 0;  ///< any number, or none: the signal goes all the same
  SignalPut put{};        ///< `theirs` is the peer's mailbox for this rank
  SignalWait wait{};      ///< `word` is this rank's mailbox for the peer
};

/// Where a message is put. It may lie there already.
struct MailPlace {
  void* to = nullptr;
  std::size_t bytes = 0;  ///< the first of the message; or none
};

/// What is made of messages, and of what else lies at hand, once all have come: their sum, as Device::reduce makes it,
/// or each of them in a place of its own. Nothing without sources.
struct MailUse {
  std::span<const void* const> sources{};
  std::span<const MailPlace> places{};  ///< of each source; none: they are added up
  void* out = nullptr;                  ///< of a sum
  std::int64_t count = 0;               ///< elements of each source of a sum
  DType dtype = f32;
};

}  // namespace tandem

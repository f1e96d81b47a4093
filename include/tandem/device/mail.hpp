// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/base/dtype.hpp"
#include "tandem/device/signal.hpp"

namespace tandem {

/// A mailbox is a SignalWord and a message, which begins in the word's last cache line and continues in the memory
/// after it: reading the signal also loads the beginning of the message. This is the message's offset in bytes.
inline constexpr std::size_t mail_offset = offsetof(SignalWord, value) + 16;
static_assert(offsetof(SignalWord, sleepers) + sizeof(SignalWord::sleepers) <= mail_offset);

/// The size in bytes of a mailbox for messages of up to `bytes`.
[[nodiscard]] constexpr std::size_t mailbox_bytes(std::size_t bytes) noexcept {
  return (mail_offset + bytes + sizeof(SignalWord) - 1) / sizeof(SignalWord) * sizeof(SignalWord);
}

/// Eight bytes of a message, and the number of the exchange that they belong to. A single access of 16 bytes reads or
/// writes both: a reader that sees the number has the bytes, without a signal. (NCCL's LL protocol, with numbers that
/// never repeat.)
struct alignas(16) MailPacket {
  std::uint64_t bytes;
  std::uint64_t number;
};

/// The size in bytes of a packet box. It follows a mailbox, in memory that nothing else writes: a header packet, then
/// the message's packets. The header's `number`, used only in the box of a lane's turn 0 and first peer, is how many
/// turns the owner has had in packets; two_shot takes two.
[[nodiscard]] constexpr std::size_t packet_box_bytes(std::size_t bytes) noexcept {
  return (1 + (bytes + sizeof(MailPacket::bytes) - 1) / sizeof(MailPacket::bytes)) * sizeof(MailPacket);
}

/// A message to a peer, and the wait for the peer's message to this rank.
struct Letter {
  const void* message = nullptr;
  std::size_t bytes = 0;  ///< may be 0: the signal is sent all the same
  SignalPut put{};        ///< `theirs` is the peer's mailbox for this rank
  SignalWait wait{};      ///< `word` is this rank's mailbox for the peer
};

/// Where a message is copied to. It may be there already.
struct MailPlace {
  void* to = nullptr;
  std::size_t bytes = 0;  ///< of the beginning of the message; may be 0
};

/// What is done with messages, and with other local sources, once all messages have arrived: they are summed, as by
/// Device::reduce, or each is copied to a place of its own. Without sources nothing is done.
struct MailUse {
  std::span<const void* const> sources{};
  std::span<const MailPlace> places{};  ///< one for each source; empty: the sources are summed
  void* out = nullptr;                  ///< of the sum
  std::int64_t count = 0;               ///< of the sum: elements of each source
  DType dtype = f32;
};

}  // namespace tandem

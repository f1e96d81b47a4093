// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/base/dtype.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/device/signal.hpp"

namespace tandem {

/// The algorithm of a mailed exchange.
enum class MailedForm : std::uint8_t {
  one_shot,        ///< all_reduce: each rank receives all inputs, and sums them
  two_shot,        ///< all_reduce: each rank sums its shard, then all ranks receive all sums
  reduce_scatter,  ///< the first half of two_shot
  all_gather,      ///< the second half of two_shot
  parts            ///< all_to_all, broadcast: each rank sends each peer a different part, or nothing
};

/// What is sent to a rank and received from it, counted in elements; for the own rank, what it keeps: there `sent`
/// equals `received`, and `from` may equal `to`. Other parts must not overlap.
struct MailedPart {
  const void* from = nullptr;
  std::int64_t sent = 0;
  void* to = nullptr;
  std::int64_t received = 0;
};

/// A small collective in one kernel: each rank writes what its peers need into mailboxes in their memory, and makes its
/// output from what it receives. Sums are bitwise equal to those of Device::reduce.
///
/// The whole tensor has `count` elements; rank r's shard begins at element r · `shard`. Of each shard the exchange
/// takes the first `length` elements, or as many as it has. (one_shot has no shards: `shard` is 0, `length` is `count`.
/// Nor has the form `parts`, whose `parts` say what goes where: `length` is the longest one of all pairs of ranks.)
///
/// A shard is cut into slices that fit a lane's mailboxes, one for each lane (thread block), starting with the first. A
/// lane waits only for the same lane of the peers. It has two mailboxes for each pair of ranks, which its messages use
/// alternately. The device counts these turns, so that an exchange in a replayed graph uses the right one, too. No
/// credits are granted: before a rank overwrites a mailbox it has received every peer's next message, which a peer
/// sends only after it has read the previous one.
///
/// So each rank sends each peer a message, an empty one if it has no data for it, which serves as the credit. In a
/// broadcast only the root has data. If the others sent nothing, the root could be two exchanges ahead of a slow reader
/// and overwrite its mailbox. Nor is it enough that each rank answers the root. Let A be the root of exchanges k
/// and k + 2, C that of k + 1, and B slow: A waits for C in k + 1, C for no rank that waits for B, and A overwrites B's
/// mailbox of exchange k. (Turns counted for each pair would solve that, and cost a counter for each pair.) Empty
/// messages are sent concurrently with the others. So no rank leaves a broadcast before all ranks have entered it. That
/// is so in all other forms, too, and wherever peers' tensors are written, since the writer must know that it may.
///
/// Small data is sent in packets (see MailPacket), which take twice the bytes on the link but no signal. They have
/// boxes and turns of their own, by the same rule; a rank without data for a peer sends it one packet all the same. One
/// is enough, although each thread waits only for its own packets: a box is overwritten in a later kernel than the one
/// that received the peer's intermediate packet, and the peer sent that in a later kernel than the one that read the
/// box. In two_shot the sums are the second turn, in the same kernel: a packet of sums is sent only after the inputs of
/// all peers at its place have been read, and a rank that writes the next turn has received all sums.
struct MailedExchange {
  MailedForm form = MailedForm::one_shot;
  const void* input = nullptr;  ///< the whole tensor; all_gather: this rank's shard
  void* out = nullptr;          ///< the whole tensor; reduce_scatter: this rank's shard. May be (a part of) `input`
  std::int64_t count = 0;
  std::int64_t shard = 0;
  std::int64_t length = 0;
  std::span<const MailedPart> parts{};  ///< form `parts`: one for each rank, instead of all of the above but `length`
  DType dtype = f32;                    ///< for sums, one that Device::reduce supports; all_gather, parts: any
  /// For sums, as in Reduction; element i of the whole tensor gets the bias' element i mod columns.
  const void* bias = nullptr;
  std::int64_t columns = 1;
  Activation activation = Activation::none;

  /// All ranks but this one, in rank order: their mailboxes (see mail.hpp) of lane 0 and turn 0.
  std::span<const PeerWords> peers{};
  std::int32_t rank = 0;        ///< this rank in the team
  std::int64_t slice = 0;       ///< elements of each lane; the last one may have fewer
  std::size_t lane_pitch = 0;   ///< bytes from a lane's mailboxes to the next lane's
  std::size_t turn_pitch = 0;   ///< bytes from a mailbox of turn 0 to that of turn 1
  std::size_t packet_box = 0;   ///< bytes from a mailbox to its packet box, to send packets; 0: to use mailboxes
  std::uint32_t operation = 0;  ///< for errors, where the channel is the lane
};

}  // namespace tandem

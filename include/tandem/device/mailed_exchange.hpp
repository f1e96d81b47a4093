// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/base/dtype.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/device/signal.hpp"

namespace tandem {

/// What an exchange by mail does.
enum class MailedForm : std::uint8_t {
  one_shot,        ///< all_reduce: each rank gets all inputs, and adds them up
  two_shot,        ///< all_reduce: each rank adds up its shard, then all get all sums
  reduce_scatter,  ///< the first half of that
  all_gather,      ///< the second
  parts            ///< all_to_all, broadcast: each rank sends each peer a part of its own, or nothing
};

/// What goes to a rank and what comes from it, in elements; at a rank's own place what it keeps: `sent` is `received`
/// there. Other parts do not overlap; that one may stay where it is.
struct MailedPart {
  const void* from = nullptr;
  std::int64_t sent = 0;
  void* to = nullptr;
  std::int64_t received = 0;
};

/// A small collective in one step of the device: each rank writes what its peers need into mailboxes there, and makes
/// its output of what it gets. Sums are those of Device::reduce, to the bit.
///
/// The whole is `count` elements, of which rank r's shard begins at element r · `shard`. Of each shard the exchange
/// takes the first `length` elements, or as many as there are. (one_shot knows no shards: `shard` is 0, `length` is
/// `count`. Nor do `parts`, which say themselves what goes where: `length` is the longest of all pairs of ranks.)
///
/// A shard is cut into slices, one for each lane from the first on; a slice fits a lane's mailboxes. Lanes wait for
/// nobody but the same lane of the peers. Each has two mailboxes for every pair of ranks, which its messages take in
/// turn. Whose turn it is the device counts: so an exchange that is captured once and replayed finds it too. Nothing is
/// granted: who writes a mailbox again has had everybody's next message, which nobody sends before it has read this
/// one.
///
/// So everybody sends everybody a message, an empty one where it has nothing to say: that is the credit. In a broadcast
/// the root alone has something to say. If the others kept silent, it could be two exchanges ahead of a late reader,
/// whose mailbox it then writes again. Nor is it enough that each answers the root. Let A be the root of exchanges k
/// and k + 2, C that of k + 1, and B late: A waits for C in k + 1, C for nobody who waits for B, and A writes B's
/// mailbox of exchange k. (Turns that each pair counted by itself would mend that, and cost a count for each pair.) An
/// empty message crosses while the others do. It makes a broadcast end nowhere before it has begun everywhere, which
/// all other forms do as well, and so does any that writes into a peer's tensor, since it has to be told that it may.
///
/// What is small goes in packets (see MailPacket), which take twice the bytes on the way and no signal. They have boxes
/// and turns of their own, by the same rule; a rank without anything for a peer sends it one packet all the same. One
/// is enough, though threads wait for packets of their own only: who writes a box again does so in a later kernel than
/// the one that had the peer's packet in between, and that one left a later kernel than what read the box. Of two shots
/// the sums are the second turn, in the same kernel: a packet of sums leaves only when that place's inputs of all peers
/// have been read, and who writes the next turn has received all sums.
struct MailedExchange {
  MailedForm form = MailedForm::one_shot;
  const void* input = nullptr;  ///< the whole; all_gather: this rank's shard
  void* out = nullptr;          ///< the whole; reduce_scatter: this rank's shard. It may be (a part of) `input`
  std::int64_t count = 0;
  std::int64_t shard = 0;
  std::int64_t length = 0;
  std::span<const MailedPart> parts{};  ///< of form parts, by rank, instead of what is above but for `length`
  DType dtype = f32;                    ///< one that is summed; all_gather, parts: any
  /// Of sums, as in Reduction; element i of the whole has the bias' element i mod columns.
  const void* bias = nullptr;
  std::int64_t columns = 1;
  Activation activation = Activation::none;

  /// All ranks but this one, in their order: their mailboxes (see mail.hpp) of lane 0 and turn 0.
  std::span<const PeerWords> peers{};
  std::int32_t rank = 0;        ///< this one's in the team
  std::int64_t slice = 0;       ///< elements of a lane; the last one may have fewer
  std::size_t lane_pitch = 0;   ///< bytes from a lane's mailboxes to the next lane's
  std::size_t turn_pitch = 0;   ///< bytes from a mailbox of turn 0 to that of turn 1
  std::size_t packet_box = 0;   ///< bytes from a mailbox to its packet box, by which all goes; 0: by mailboxes
  std::uint32_t operation = 0;  ///< for the error; the channel there is the lane
};

}  // namespace tandem

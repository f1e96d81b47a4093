// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/base/dtype.hpp"
#include "tandem/device/signal.hpp"

namespace tandem {

/// A peer's place in a sum by mail: its mailbox for this rank and this rank's for it (see mail.hpp), of lane 0 and
/// turn 0.
struct MailPeer {
  SignalWord* theirs = nullptr;
  SignalWord* mine = nullptr;
  std::int32_t world_rank = -1;  ///< for the error
};

/// out[i] = Σ_r input_r[i] over a team's ranks, in their order, in one step: each rank writes its input into a mailbox
/// at every peer, and adds what it gets to its own. Sums are those of Device::reduce, to the bit.
///
/// A message is cut into slices, one for each lane from the first on; a slice fits a lane's mailboxes. Lanes wait for
/// nobody but the same lane of the peers. Each has two mailboxes for every pair of ranks, which it takes in turn.
/// Whose turn it is the device counts: so a sum that is captured once and replayed finds it too. Nothing is granted:
/// who writes a mailbox again has had everybody's next message, which nobody sends before it has read this one.
struct MailedSum {
  std::span<const MailPeer> peers;  ///< all ranks but this one, in their order
  std::int32_t rank = 0;            ///< this one's place in it
  const void* input = nullptr;
  void* out = nullptr;  ///< may be `input`
  std::int64_t count = 0;
  DType dtype = f32;
  std::int64_t slice = 0;       ///< elements of a lane; the last one may have fewer
  std::size_t lane_pitch = 0;   ///< bytes from a lane's mailboxes to the next lane's
  std::size_t turn_pitch = 0;   ///< bytes from a mailbox of turn 0 to that of turn 1
  std::uint32_t operation = 0;  ///< for the error; the channel there is the lane
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/slots.hpp"

#include "tandem/base/checked.hpp"

#include "team/or_abort.hpp"

namespace tandem {
namespace {

constexpr std::size_t slot_alignment = 256;  // what cuBLASLt's fastest algorithms ask of operands

}  // namespace

Slots::Slots(const Team& team, std::size_t bytes, std::uint32_t arrivals, std::uint32_t operation)
    : bytes_(round_up(bytes, slot_alignment)), arrivals_(arrivals) {
  memory_ = or_abort(team, "slots", [&] {
    return SymmetricMemory::allocate(team, bytes_ * count, {.channels = count * (arrivals + 1)});
  });
  memory_.rendezvous();
  pad_ = memory_.signal_pad().named(operation);
  for (int rank = 0; rank < team.size(); ++rank) remotes_.push_back(memory_.remote(rank));
  for (int step = 1; step < team.size(); ++step) peers_.push_back((team.rank() + step) % team.size());

  const Stream stream(team.device());
  for (int slot = 0; slot < count; ++slot) grant(stream, slot, peers_);
  team.synchronize(stream);
}

void Slots::take(StreamRef stream, int slot, std::span<const int> readers) const {
  pad_.wait_signals(stream, readers, channel(slot, 0));
}

void Slots::signal(StreamRef stream, int slot, std::span<const int> readers, std::uint32_t arrival) const {
  pad_.put_signals(stream, readers, channel(slot, 1 + arrival));
}

void Slots::wait(StreamRef stream, int slot, std::span<const int> writers, std::uint32_t arrival) const {
  pad_.wait_signals(stream, writers, channel(slot, 1 + arrival));
}

void Slots::grant(StreamRef stream, int slot, std::span<const int> writers) const {
  pad_.put_signals(stream, writers, channel(slot, 0));
}

}  // namespace tandem

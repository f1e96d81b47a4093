// SPDX-License-Identifier: Apache-2.0
#include "attention/returned_gradients.hpp"

#include <algorithm>
#include <span>

#include "tandem/device/copy.hpp"
#include "tandem/device/push.hpp"
#include "tandem/device/trace_range.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "collective/plan_buffer.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

// What ranks signal to each other.
constexpr std::uint32_t arrived = 0;  // what I computed for you is with you
constexpr std::uint32_t credit = 1;   // you may send me yours
constexpr std::uint32_t channels = 2;

constexpr int places = 2;

/// The largest number of keys that any rank returns to any other: equal on all ranks.
std::int64_t longest_return(const ContextParallelSpec& spec, int ranks) {
  std::int64_t longest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const AttentionSchedule schedule(spec, ranks, rank);
    for (const AttentionSchedule::Return& each : schedule.returns()) longest = std::max(longest, each.keys.count);
  }
  return longest;
}

/// The number of this rank's return among those that `owner` receives.
int turn_at(const ContextParallelSpec& spec, int ranks, int owner, int rank) {
  const AttentionSchedule theirs(spec, ranks, owner);
  const auto mine = std::ranges::find(theirs.returns(), rank, &AttentionSchedule::Return::rank);
  return static_cast<int>(mine - theirs.returns().begin());
}

}  // namespace

ReturnedGradients::ReturnedGradients(const Team& team, const ContextParallelSpec& spec,
                                     const AttentionSchedule& schedule, KeyValueRows rows, std::uint32_t operation)
    : team_(team),
      rows_(rows),
      returns_(schedule.returns()),
      place_bytes_(checked_round_up(rows.both(longest_return(spec, team.size())), key_value_alignment)),
      beside_(team) {
  for (const AttentionSchedule::Fetch& fetch : schedule.fetches()) {
    const int turn = turn_at(spec, team.size(), fetch.rank, team.rank());
    sendings_.push_back({fetch.rank, turn % places, fetch.keys.count});
  }
  memory_ = or_abort(team, "memory for returned gradients",
                     [&] { return SymmetricMemory::allocate(team, places * place_bytes_, {.channels = channels}); });
  memory_.rendezvous();
  pad_ = memory_.signal_pad().named(operation);
  for (std::size_t i = 0; i < std::min<std::size_t>(sendings_.size(), 2); ++i) {
    buffers_.push_back({Reclaimed<Buffer>(team, plan_buffer(team, place_bytes_)),
                        or_abort(team, "an event", [&] { return Event(team.device()); })});
  }
  or_abort(team, "returned gradients", [&] {
    const Stream stream(team.device());
    for (std::size_t i = 0; i < std::min<std::size_t>(returns_.size(), places); ++i) grant(stream, i);
    team.synchronize(stream);
  });
}

KeysAndValues ReturnedGradients::open(std::size_t i, StreamRef stream) {
  const Sent& buffer = buffers_[i % buffers_.size()];
  if (i >= buffers_.size()) buffer.sent.wait(stream);
  auto* const memory = buffer.memory->data_as<std::byte>();
  return {memory, memory + rows_.keys(sendings_[i].keys)};
}

void ReturnedGradients::send(std::size_t i, StreamRef stream) {
  Sent& buffer = buffers_[i % buffers_.size()];
  const auto& [rank, place, keys] = sendings_[i];
  // On the caller's stream, since a kernel on another one may have to wait until a kernel of this one ends.
  pad_.wait_and_count(stream, std::span(&rank, 1), credit, arrived);
  beside_.follow(stream);
  Push push{.copy = {.dst = place_at(rank, place),
                     .src = buffer.memory->data(),
                     .bytes = rows_.both(keys),
                     .path = Path::link},
            .put = pad_.signal_to(rank, arrived)};
  push.put.counted = true;
  {
    const TraceRange range(team_.device(), beside_.ref(), "return gradients", TraceKind::communication);
    team_.device().push(beside_.ref(), std::span(&push, 1), team_.control());
  }
  buffer.sent.record(beside_.ref());
  team_.device().flush(beside_.ref());
}

KeysAndValues ReturnedGradients::wait(std::size_t i, StreamRef stream) const {
  const TraceRange range(team_.device(), stream, "wait for gradients", TraceKind::wait);
  pad_.wait_signal(stream, returns_[i].rank, arrived);
  std::byte* const memory = place_at(team_.rank(), static_cast<int>(i % places));
  return {memory, memory + rows_.keys(returns_[i].keys.count)};
}

// The last return in each place is followed by the next run's first one there.
void ReturnedGradients::release(std::size_t i, StreamRef stream) const {
  grant(stream, i + places < returns_.size() ? i + places : i % places);
}

void ReturnedGradients::grant(StreamRef stream, std::size_t i) const {
  pad_.put_signal(stream, returns_[i].rank, credit);
}

Owners ReturnedGradients::owners() const {
  Owners owners = owners_of(memory_);
  for (const Sent& each : buffers_) owners.push_back(each.memory.shared());
  return owners;
}

std::string ReturnedGradients::describe() const {
  return format("gradients of {} block{} are returned, those of {} received, in {} bytes each", sendings_.size(),
                sendings_.size() == 1 ? "" : "s", returns_.size(), place_bytes_);
}

}  // namespace tandem

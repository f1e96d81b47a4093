// SPDX-License-Identifier: Apache-2.0
#include "attention/key_value_fetches.hpp"

#include <algorithm>
#include <array>

#include "tandem/device/copy.hpp"
#include "tandem/device/trace_range.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "collective/engines.hpp"
#include "collective/plan_buffer.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t kept = 0;  // what ranks signal to each other: my keys and values are in my slot

std::int64_t longest_fetch(const AttentionSchedule& schedule) {
  std::int64_t longest = 0;
  for (const AttentionSchedule::Fetch& fetch : schedule.fetches()) longest = std::max(longest, fetch.keys.count);
  return longest;
}

template <typename Uses> std::vector<int> ranks_of(const Uses& uses) {
  std::vector<int> ranks;
  for (const auto& use : uses) ranks.push_back(use.rank);
  return ranks;
}

}  // namespace

KeyValueFetches::KeyValueFetches(const Team& team, const AttentionSchedule& schedule, KeyValueRows rows,
                                 std::int64_t longest, std::uint32_t operation)
    : team_(team),
      rows_(rows),
      tokens_(schedule.tokens()),
      values_at_(checked_round_up(rows.keys(longest), key_value_alignment)),
      fetched_values_at_(checked_round_up(rows.keys(longest_fetch(schedule)), key_value_alignment)),
      fetches_(schedule.fetches()),
      readers_(ranks_of(schedule.returns())),
      writers_(ranks_of(schedule.fetches())),
      slots_(team, team.size() == 1 ? 0 : values_at_ + rows.values(longest), 1, operation),
      beside_(team) {
  const std::size_t bytes = fetched_values_at_ + rows.values(longest_fetch(schedule));
  const auto event = [&] { return or_abort(team, "an event", [&] { return Event(team.device()); }); };
  for (std::size_t i = 0; i < std::min<std::size_t>(fetches_.size(), 2); ++i) {
    buffers_.push_back({Reclaimed<Buffer>(team, plan_buffer(team, bytes)), event(), event()});
  }
}

void KeyValueFetches::start(const void* k, const void* v, StreamRef stream) {
  slot_ = slots_.next();
  if (!readers_.empty()) {
    const TraceRange range(team_.device(), stream, "keep keys and values", TraceKind::other);
    slots_.take(stream, slot_, readers_);
    team_.device().copy(stream, {.dst = slots_.local(slot_), .src = k, .bytes = rows_.keys(tokens_)});
    team_.device().copy(stream, {.dst = slots_.local(slot_) + values_at_, .src = v, .bytes = rows_.values(tokens_)});
    slots_.signal(stream, slot_, readers_, kept);
  }
  if (fetches_.empty()) return;
  {
    const TraceRange range(team_.device(), stream, "wait for keys and values", TraceKind::wait);
    slots_.wait(stream, slot_, writers_, kept);
  }
  beside_.follow(stream);
  for (std::size_t i = 0; i < buffers_.size(); ++i) fetch(i);
  team_.device().yield(stream);
}

void KeyValueFetches::fetch(std::size_t i) {
  const AttentionSchedule::Fetch& from = fetches_[i];
  Fetched& into = buffer(i);
  const std::byte* const theirs = slots_.remote(slot_, from.rank);
  auto* const to = into.memory->data_as<std::byte>();
  const std::array<Copy, 2> copies{Copy{.dst = to,
                                        .src = theirs + rows_.keys(from.keys.begin),
                                        .bytes = rows_.keys(from.keys.count),
                                        .path = Path::link},
                                   Copy{.dst = to + fetched_values_at_,
                                        .src = theirs + values_at_ + rows_.values(from.keys.begin),
                                        .bytes = rows_.values(from.keys.count),
                                        .path = Path::link}};
  {
    const TraceRange range(team_.device(), beside_.ref(), "fetch keys and values", TraceKind::communication);
    team_.device().copy_batch(beside_.ref(), copies);
  }
  into.arrived.record(beside_.ref());
  team_.device().flush(beside_.ref());
}

KeysAndValues KeyValueFetches::wait(std::size_t i, StreamRef stream) const {
  const Fetched& from = buffer(i);
  from.arrived.wait(stream);
  auto* const memory = from.memory->data_as<std::byte>();
  return {memory, memory + fetched_values_at_};
}

void KeyValueFetches::release(std::size_t i, StreamRef stream) {
  const std::size_t next = i + buffers_.size();
  if (next >= fetches_.size()) return;
  Fetched& freed = buffer(i);
  freed.read.record(stream);
  freed.read.wait(beside_.ref());
  fetch(next);
}

void KeyValueFetches::finish(StreamRef stream) {
  if (fetches_.empty()) return;
  slots_.grant(beside_.ref(), slot_, writers_);
  beside_.rejoin(stream);
}

Owners KeyValueFetches::owners() const {
  Owners owners = slots_.owners();
  for (const Fetched& each : buffers_) owners.push_back(each.memory.shared());
  return owners;
}

std::string KeyValueFetches::describe() const {
  if (fetches_.empty()) return "no keys and values are fetched";
  std::size_t bytes = 0;
  for (const AttentionSchedule::Fetch& each : fetches_) bytes += rows_.both(each.keys.count);
  return format("keys and values of {} rank{} are fetched by {}: {} bytes, into {} buffer{} of {}", fetches_.size(),
                fetches_.size() == 1 ? "" : "s", engines_copy(team_.device()) ? "copy engines" : "the cores", bytes,
                buffers_.size(), buffers_.size() == 1 ? "" : "s", buffers_.front().memory->bytes());
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/symmetric_memory.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/buffer.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "memory/owners.hpp"
#include "team/descriptor_limit.hpp"
#include "team/names.hpp"
#include "team/or_abort.hpp"
#include "team/reclaimed.hpp"
#include "team/rethrow.hpp"
#include "team/wire.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t max_channels = 4096;

/// What each rank sends to the others at a rendezvous.
struct Announcement {
  std::string terms;             ///< what must be equal on all ranks, as text
  std::uint64_t offset = 0;      ///< of the data within its segment
  std::uint64_t pad_offset = 0;  ///< of the pad within its segment
  Parcel data;
  Parcel pad;  ///< empty if the pad is in the data's segment
};

Parcel pack(Announcement announcement) {
  WireWriter writer;
  writer.text(announcement.terms).number(announcement.offset).number(announcement.pad_offset);
  writer.number(static_cast<std::uint64_t>(announcement.data.bytes.size()));
  Parcel parcel{writer.rest(announcement.data.bytes).rest(announcement.pad.bytes).take(), {}};
  for (Parcel* part : {&announcement.data, &announcement.pad}) {
    std::ranges::move(part->descriptors, std::back_inserter(parcel.descriptors));
  }
  return parcel;
}

Announcement unpack(Parcel parcel) {
  if (parcel.descriptors.empty()) throw Error("a rendezvous message came in that is not one of Tandem's");
  Announcement result;
  WireReader reader(parcel.bytes);
  result.terms = reader.text();
  result.offset = reader.number<std::uint64_t>();
  result.pad_offset = reader.number<std::uint64_t>();
  const auto data_bytes = reader.number<std::uint64_t>();
  const auto rest = reader.rest();
  const auto data = rest.first(std::min<std::size_t>(data_bytes, rest.size()));
  const auto pad = rest.subspan(data.size());
  result.data.bytes.assign(data.begin(), data.end());
  result.pad.bytes.assign(pad.begin(), pad.end());
  result.data.descriptors.push_back(std::move(parcel.descriptors[0]));
  for (FileDescriptor& fd : std::span(parcel.descriptors).subspan(1)) result.pad.descriptors.push_back(std::move(fd));
  return result;
}

/// The allocations of this process that contain a signal pad, after the data: memory that wraps a part of one must not
/// extend into the pad. An allocation that has been released has no signals any more, even if its memory is kept alive.
class Allocations {
 public:
  void remember(const std::shared_ptr<Segment>& segment, std::size_t data_bytes) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(by_begin_, [](const auto& entry) { return entry.second.segment.expired(); });
    by_begin_.insert_or_assign(segment->data(), Allocation{segment, data_bytes});
  }

  /// Bytes from `data` to the end of the data of the allocation that contains it; empty if none does.
  [[nodiscard]] std::optional<std::size_t> left_from(const std::byte* data) {
    const std::scoped_lock lock(mutex_);
    auto at = by_begin_.upper_bound(data);
    if (at == by_begin_.begin()) return std::nullopt;
    const auto& [begin, allocation] = *--at;
    const std::shared_ptr<Segment> segment = allocation.segment.lock();
    const auto offset = static_cast<std::size_t>(data - begin);
    if (segment == nullptr || offset >= segment->bytes()) return std::nullopt;
    return allocation.data_bytes - std::min(offset, allocation.data_bytes);
  }

 private:
  struct Allocation {
    std::weak_ptr<Segment> segment;
    std::size_t data_bytes;
  };
  std::mutex mutex_;
  std::map<const std::byte*, Allocation, std::less<>> by_begin_;
};

Allocations& allocations() {
  // Never destroyed: destructors of other static objects may still use it.
  static Allocations& all = *new Allocations;
  return all;
}

}  // namespace

class SymmetricMemory::State {
 public:
  State(const Team& its_team, const MemoryOptions& options, std::size_t size)
      : team(its_team),
        backend(or_rethrow(its_team, "symmetric memory",
                           [&] { return open_memory_backend(options.backend, its_team.shared_device()); })),
        channels(options.channels),
        bytes(size) {
    if (channels < 1 || channels > max_channels) {
      throw InvalidArgument(format("a signal pad of {} channels was asked for on {}; allowed: 1 to {}", channels,
                                   name_own_rank(team), max_channels));
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// The result of a rendezvous. Set as a whole, since another rendezvous may follow one that failed.
  struct Reach {
    std::uint64_t id = 0;
    std::vector<std::shared_ptr<Mapping>> mappings;
    std::vector<std::shared_ptr<Mapping>> pad_mappings;
    std::vector<std::size_t> offsets;  // of each rank's part within its mapping
    std::vector<std::byte*> remotes;
    Buffer table;
  };

  /// What queued work may still use, here or through a peer's mapping. The last member is destroyed first.
  struct Held {
    std::shared_ptr<Segment> pad_segment;  ///< the same as `segment` unless the data was wrapped
    std::shared_ptr<Segment> segment;
    std::shared_ptr<Mapping> side_by_side;
    std::optional<Reach> reach;  ///< after the rendezvous
  };

  [[nodiscard]] std::size_t pad_bytes() const {
    return std::size_t{channels} * static_cast<std::size_t>(team.size()) * sizeof(SignalWord);
  }

  [[nodiscard]] std::shared_ptr<Segment> allocate(std::size_t size) const {
    try {
      return backend->allocate(size);
    } catch (const OutOfMemory&) {
      team.collect();  // memory that was passed to `reclaim`, but not released yet, may suffice
    }
    try {
      return backend->allocate(size);
    } catch (const OutOfMemory& error) {
      throw OutOfMemory(format("{}, on {}", error.what(), name_own_rank(team)));
    }
  }

  [[nodiscard]] std::string text() const {
    return format("{} bytes on backend '{}' with {} channels", bytes, backend->name(), channels);
  }

  void rendezvous(std::string_view contents) {
    const std::string_view call =
        contents.empty() ? "rendezvous of symmetric memory" : "rendezvous of a symmetric tensor";
    const auto offset = static_cast<std::size_t>(data - held->segment->data());
    Announcement mine{contents.empty() ? text() : format("{} in {}", contents, text()), offset, pad_offset, {}, {}};
    or_abort(team, call, [&] {
      team.collect();
      mine.data = held->segment->share();
      if (held->pad_segment != held->segment) mine.pad = held->pad_segment->share();
    });
    const std::string my_terms = mine.terms;

    std::vector<Parcel> parcels = team.exchange(call, pack(std::move(mine)));
    const std::uint64_t id = team.sequence();
    std::vector<Announcement> all;
    for (Parcel& parcel : parcels) all.push_back(unpack(std::move(parcel)));
    // If terms differ, every rank finds that here and throws: none maps anything, and another rendezvous may follow.
    for (int rank = 0; rank < team.size(); ++rank) {
      const std::string& their_terms = all[static_cast<std::size_t>(rank)].terms;
      if (their_terms != my_terms) {
        throw InvalidArgument(format("rendezvous: {} has {}, {} has {}; they must be equal",
                                     to_string(team.peer(team.rank())), my_terms, to_string(team.peer(rank)),
                                     their_terms));
      }
    }
    or_abort(team, call, [&] { map(std::move(all)); });
    held->reach->id = id;
    if (team.log().enabled(LogLevel::trace)) {
      team.log().write(LogLevel::trace,
                       format("rendezvous of {}, at {} here", my_terms, static_cast<const void*>(data)));
    }
  }

  std::byte* contiguous() {
    const std::scoped_lock lock(contiguous_mutex_);
    if (held->side_by_side != nullptr) return held->side_by_side->data();
    for (std::size_t rank = 0; rank < held->reach->offsets.size(); ++rank) {
      if (held->reach->offsets[rank] == 0) continue;
      throw Unsupported(
          format("all ranks' parts in one address range were asked for on {}, but rank {}'s begins {} bytes into "
                 "its allocation; allowed: every rank wraps from its allocation's start",
                 name_own_rank(team), rank, held->reach->offsets[rank]));
    }
    held->side_by_side = backend->map_side_by_side(held->reach->mappings);
    return held->side_by_side->data();
  }

  [[nodiscard]] std::size_t contiguous_stride() const {
    std::size_t stride = 0;
    for (const auto& mapping : held->reach->mappings) stride = std::max(stride, mapping->bytes());
    return stride;
  }

  Team team;
  std::shared_ptr<MemoryBackend> backend;
  std::uint32_t channels;
  std::size_t bytes;
  Reclaimed<Held> held{team, std::make_shared<Held>()};
  std::byte* data = nullptr;  ///< within `held->segment`
  std::size_t pad_offset = 0;
  SignalPad pad;  // not in Held: it holds the team, which what is passed to Team::reclaim must not

 private:
  void map(std::vector<Announcement> all) {
    Reach found;
    std::vector<SignalWord*> words;
    const auto mapped = [&](Parcel&& parcel, int rank) {
      try {
        return backend->map(std::move(parcel));
      } catch (...) {
        rethrow_from(team, format("mapping the memory of {}", to_string(team.peer(rank))));
      }
    };
    for (int rank = 0; rank < team.size(); ++rank) {
      Announcement& theirs = all[static_cast<std::size_t>(rank)];
      // This rank's own part keeps its original address, so that each of its bytes has only one address here.
      const bool own = rank == team.rank();
      const bool pad_apart = !theirs.pad.descriptors.empty();
      auto data_mapping = mapped(std::move(theirs.data), rank);
      std::byte* pad_base = own ? held->pad_segment->data() : data_mapping->data();
      if (pad_apart) {
        found.pad_mappings.push_back(mapped(std::move(theirs.pad), rank));
        if (!own) pad_base = found.pad_mappings.back()->data();
      }
      found.remotes.push_back((own ? held->segment->data() : data_mapping->data()) + theirs.offset);
      words.push_back(reinterpret_cast<SignalWord*>(pad_base + theirs.pad_offset));
      found.mappings.push_back(std::move(data_mapping));
      found.offsets.push_back(theirs.offset);
    }
    found.table = Buffer(team.shared_device(), found.remotes.size() * sizeof(void*));
    team.device().upload(found.table.data(), found.remotes.data(), found.remotes.size() * sizeof(void*));
    pad = SignalPad(team, std::move(words), channels, team.register_operation("signal pad"));
    held->reach = std::move(found);
  }

  std::mutex contiguous_mutex_;
};

SymmetricMemory SymmetricMemory::allocate(const Team& team, std::size_t bytes, const MemoryOptions& options) {
  auto state = std::make_shared<State>(team, options, bytes);
  state->pad_offset = round_up(bytes, alignof(SignalWord));
  const std::size_t total = state->pad_offset + state->pad_bytes();
  // At most half of the range, so that rounding up later cannot overflow.
  if (state->pad_offset < bytes || total < bytes || total > std::numeric_limits<std::size_t>::max() / 2) {
    throw OutOfMemory(format("{} bytes of symmetric memory were asked for on {}; no address space has that", bytes,
                             name_own_rank(team)));
  }
  make_room_for_descriptors(1, team.log());  // on the host, a segment holds one for its lifetime
  state->held->segment = state->allocate(total);
  state->held->pad_segment = state->held->segment;
  state->data = state->held->segment->data();
  allocations().remember(state->held->segment, bytes);
  if (team.log().enabled(LogLevel::trace)) {
    team.log().write(LogLevel::trace,
                     format("allocated {}, at {}", state->text(), static_cast<const void*>(state->data)));
  }
  return SymmetricMemory(std::move(state));
}

SymmetricMemory SymmetricMemory::wrap(const Team& team, void* data, std::size_t bytes, const MemoryOptions& options) {
  auto state = std::make_shared<State>(team, options, bytes);
  const std::optional<std::size_t> left = allocations().left_from(static_cast<const std::byte*>(data));
  if (left && bytes > *left) {
    throw InvalidArgument(format("{} bytes at {} were to be wrapped on {}; the allocation there has {} from there on",
                                 bytes, data, name_own_rank(team), *left));
  }
  state->held->segment = or_rethrow(team, "symmetric memory", [&] { return state->backend->adopt(data, bytes); });
  state->data = static_cast<std::byte*>(data);
  // Another team may be using the pad of that allocation, so this one gets a pad of its own.
  make_room_for_descriptors(1, team.log());
  state->held->pad_segment = state->allocate(state->pad_bytes());
  return SymmetricMemory(std::move(state));
}

SymmetricMemory::State& SymmetricMemory::state() const {
  if (state_ == nullptr) throw InvalidArgument("a symmetric allocation that was never made is used");
  return *state_;
}

SymmetricMemory::State& SymmetricMemory::reachable_state() const {
  State& state = this->state();
  if (!state.held->reach) {
    throw InvalidArgument(
        format("symmetric memory of {} bytes on {} is used before its rendezvous; call rendezvous() on "
               "all {} ranks of the team first",
               state.bytes, name_own_rank(state.team), state.team.size()));
  }
  return state;
}

void SymmetricMemory::rendezvous() { rendezvous(std::string_view()); }

void SymmetricMemory::rendezvous(std::string_view contents) {
  if (state().held->reach) {
    throw InvalidArgument(
        format("rendezvous was called twice for one allocation on {}; once is enough, for its whole life",
               name_own_rank(state_->team)));
  }
  state_->rendezvous(contents);
}

bool SymmetricMemory::is_reachable() const noexcept { return state_ != nullptr && state_->held->reach.has_value(); }
bool SymmetricMemory::is_reachable_on(const Team& team) const noexcept {
  return is_reachable() && state_->team == team;
}
const Team& SymmetricMemory::team() const { return state().team; }
std::string_view SymmetricMemory::backend() const { return state().backend->name(); }
std::size_t SymmetricMemory::bytes() const { return state().bytes; }
std::byte* SymmetricMemory::data() const { return state().data; }

std::byte* SymmetricMemory::remote(int rank) const {
  const State& state = reachable_state();
  if (rank < 0 || rank >= state.team.size()) {
    throw InvalidArgument(format("the memory of rank {} was asked for on {}; allowed: 0 to {}", rank,
                                 name_own_rank(state.team), state.team.size() - 1));
  }
  return state.held->reach->remotes[static_cast<std::size_t>(rank)];
}

std::uint64_t SymmetricMemory::id() const { return reachable_state().held->reach->id; }

void* const* SymmetricMemory::peer_pointers() const { return reachable_state().held->reach->table.data_as<void*>(); }
std::byte* SymmetricMemory::contiguous() const { return reachable_state().contiguous(); }
std::size_t SymmetricMemory::contiguous_stride() const { return reachable_state().contiguous_stride(); }
const SignalPad& SymmetricMemory::signal_pad() const { return reachable_state().pad; }

Owners owners_of(const SymmetricMemory& memory) {
  const SymmetricMemory::State& state = memory.reachable_state();
  Owners owners{state.held->segment, state.held->pad_segment};
  for (const auto* mappings : {&state.held->reach->mappings, &state.held->reach->pad_mappings}) {
    owners.insert(owners.end(), mappings->begin(), mappings->end());
  }
  return owners;
}

}  // namespace tandem

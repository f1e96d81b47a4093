// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/concepts.hpp"
#include "tandem/base/error.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/log.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/bootstrap.hpp"

namespace tandem {

/// An ordered subset of a world's ranks, and everything that they share: the order of their collective calls, their
/// failure state, the control state of their waits. A cheap handle; copies refer to the same team. Two teams of the
/// same ranks share nothing. A team may be used by one thread at a time, different teams concurrently; `abort`,
/// `failed` and `check` by any thread.
///
/// "Collective" below means: every member calls it, in the same order relative to the team's other collective calls.
/// Each collective call waits for all members up to the team's timeout, and throws Timeout, PeerLost or Aborted.
class TANDEM_API Team {
 public:
  /// An empty team, as given to ranks that are not members. Everything but `==` and the noexcept functions (`bool`,
  /// `rank`, `size`; `failed`, which is false; `abort`, which does nothing; `reclaim`) throws InvalidArgument.
  Team() = default;

  explicit operator bool() const noexcept { return state_ != nullptr; }
  /// This rank's place in the team; -1 in an empty team.
  [[nodiscard]] int rank() const noexcept;
  /// 0 for an empty team.
  [[nodiscard]] int size() const noexcept;
  /// The world rank of the team's rank `rank`. Throws InvalidArgument if `rank` is outside [0, size).
  [[nodiscard]] int world_rank(int rank) const;
  /// World ranks, in team order.
  [[nodiscard]] std::span<const int> members() const;
  /// World rank, process id and host of the team's rank `rank`.
  [[nodiscard]] const PeerInfo& peer(int rank) const;
  /// A number that no other team of this job has, equal on all members.
  [[nodiscard]] std::uint64_t id() const;

  /// A sub-team of these ranks *of this team*, in this order. Only its members need to call it (collective among them);
  /// any other rank that calls it gets an empty team at once. Throws InvalidArgument for a rank out of range or named
  /// twice, and for lists that differ between members, Timeout or PeerLost for a member that does not come, and Aborted
  /// if this team is aborted meanwhile; one that has failed before can still make teams.
  [[nodiscard]] Team team(std::span<const int> ranks) const;
  [[nodiscard]] Team team(std::initializer_list<int> ranks) const {
    return team(std::span(ranks.begin(), ranks.size()));
  }

  /// Collective. The members with this rank's `color`, in the order of their keys, and of this team where those are
  /// equal, as MPI_Comm_split does it. A negative color: an empty team. For instance, rows and columns of a mesh:
  ///
  ///   auto tensor_parallel = team.split(team.rank() / 4);
  ///   auto data_parallel = team.split(team.rank() % 4);
  [[nodiscard]] Team split(int color, int key = 0) const;
  /// The members that are not gone, in this team's order: to go on after a PeerLost. Every member that is left calls
  /// it, also in another call or step than the others; they agree on who is left, however many are lost meanwhile. If
  /// one is lost after that, call it on the same team again, not on the team that it made: another member may not have
  /// got that one. Waits up to the team's timeout, and for a first exchange in the new team. Throws Timeout naming a
  /// member that does not come, or if the members did not agree; Aborted if a member gives up for another reason than a
  /// loss, or, as `team`, if this team has not failed before and is aborted meanwhile.
  [[nodiscard]] Team shrink() const;

  [[nodiscard]] Device& device() const;
  [[nodiscard]] const std::shared_ptr<Device>& shared_device() const;
  [[nodiscard]] const Env& env() const;
  [[nodiscard]] const Log& log() const;

  // Building blocks of plans and memory.

  /// Collective. Gives every member all members' parcels, in team order; also a barrier. `what` names the call: if
  /// members disagree on it, each throws an InvalidArgument that names both calls.
  [[nodiscard]] std::vector<Parcel> exchange(std::string_view what, Parcel mine) const;
  /// Collective. Throws InvalidArgument on every member, naming two that differ, unless `description` is equal on all.
  void agree(std::string_view what, const std::string& description) const;
  /// Collective; blocks the host. For set-up and tests: no operation on data needs it.
  void barrier() const;
  /// The number of the latest of these collective calls, equal on all members: it can identify what was made in it.
  [[nodiscard]] std::uint64_t sequence() const;

  /// The largest number of blocks, of any size, in a kernel whose blocks wait for the same blocks of the peers'
  /// kernels: so few that those of all ranks of the world can be resident at once, each on an SM of its own, even if
  /// ranks share a GPU; then half of the SMs are left to GEMMs, whose blocks need whole SMs. Otherwise resident blocks
  /// could fill the GPU while they wait for one that cannot start, or for work that is queued after such a GEMM. Equal
  /// on all ranks; at least 1.
  [[nodiscard]] int resident_blocks() const;

  /// Registers an operation's name for errors; the number goes into SignalWait::operation. Equal names get the same
  /// number. Names beyond the first 65536 are not stored and all get 0, to bound a team's memory.
  [[nodiscard]] std::uint32_t register_operation(std::string name) const;
  /// The state that this rank's waits of this team watch; lives as long as the team.
  [[nodiscard]] WaitControl* control() const;
  /// How long each wait may take, on host and device. Initially TANDEM_TIMEOUT.
  [[nodiscard]] std::chrono::milliseconds timeout() const;
  /// Sets it on this rank. Throws InvalidArgument unless it is from 1 ms to 365 days.
  void set_timeout(std::chrono::milliseconds timeout) const;

  // Failure. It is sticky: a team that failed stays failed; to continue, make a new team without the lost ranks
  // (`shrink`). A lost rank fails the teams that it is in. A rank that therefore stops using its other teams has to
  // `abort` them, or members that wait for it there wait until their deadline.
  //
  // A stream continues after a wait that failed: what is queued behind it still runs, and writes its outputs. So after
  // an error, wait for all streams (Stream::synchronize) before you use the memory of runs that were queued. And
  // another team's run on the stream takes what it finds for valid input: `synchronize` a team before its results are
  // the input of another team's run. Else, if it turns out to have failed, `abort` the other team too: members that are
  // only in that one do not know that what they got is no result.

  [[nodiscard]] bool failed() const noexcept;
  /// Throws the reason if the team has failed: PeerLost, Timeout or Aborted, with the facts. Else it costs one load for
  /// each member. A failure that only this rank has detected is reported to the other members, which then fail with the
  /// same PeerLost, or with Aborted.
  void check() const;
  /// Marks the team as failed on every member and ends all their waits. Never blocks; callable from any thread. Does
  /// nothing in a process that a rank forked.
  void abort(const std::string& reason) const noexcept;
  /// Waits for `stream`, then calls `check`: after this, results are valid. Rethrows what queued work threw, and
  /// aborts the team for it.
  void synchronize(StreamRef stream) const;

  /// Takes ownership of something that queued work may still use. `object` is released when a collective constructor,
  /// or on the host the end of a team, finds the device idle, at the latest at the world's end, which waits for the
  /// device. It must not hold this team, or the world would never end. On an empty team it is released at once. Never
  /// throws; blocks only if there is no memory to store it: then until the device is idle.
  void reclaim(std::shared_ptr<void> object) const noexcept;
  /// Makes the graph that `stream` is being captured into, and everything instantiated from it, hold `object`; when the
  /// last of them is gone, `object` is passed to `reclaim`. Does nothing if the stream is not being captured.
  void hold_in_graph(StreamRef stream, std::shared_ptr<void> object) const;
  /// Releases what was passed to `reclaim` if the device becomes idle within 100 ms, else nothing. Called by collective
  /// constructors, which must not wait for work that other teams have queued.
  void collect() const;

  /// The object cached in this team under `key`, made by `make` if there is none; used by the convenience functions. It
  /// is destroyed with the team: `make` gets a handle of this team that does not keep it alive, to build the object on.
  template <typename T, typename Make>
  [[nodiscard]] std::shared_ptr<T> cached(const std::string& key, const Make& make) const {
    if (auto kept = cache_get(key)) return std::static_pointer_cast<T>(kept);
    std::shared_ptr<T> made(make(Team(std::shared_ptr<State>(std::shared_ptr<void>(), &state()))));
    cache_put(key, made);
    return made;
  }

  friend bool operator==(const Team&, const Team&) = default;

  class State;
  explicit Team(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

 private:
  [[nodiscard]] std::shared_ptr<void> cache_get(const std::string& key) const;
  void cache_put(const std::string& key, std::shared_ptr<void> object) const;
  [[nodiscard]] State& state() const;

  std::shared_ptr<State> state_;
};
static_assert(Handle<Team>);

}  // namespace tandem

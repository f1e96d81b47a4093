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

#include "tandem/base/error.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/log.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/bootstrap.hpp"

namespace tandem {

/// An ordered subset of a world's ranks, and everything that they share: the order of their collective calls, their
/// failure state, the control word of their waits. A cheap handle; copies are the same team. Two teams of the same
/// ranks share nothing. One thread at a time for each team, different teams at once; `abort`, `failed` and `check` from
/// any thread.
///
/// "Collective" below means: every member calls it, in the same order relative to the team's other collective calls.
/// Each collective call waits for all members up to the team's timeout, and throws Timeout, PeerLost or Aborted.
class TANDEM_API Team {
 public:
  /// An empty team: what a rank outside gets. Using it for anything but `==` and what is noexcept (`bool`, `rank`,
  /// `size`; `failed`, which is false; `abort`, which does nothing; `reclaim`) is an InvalidArgument.
  Team() = default;

  explicit operator bool() const noexcept { return state_ != nullptr; }
  /// This rank's place in the team; -1 in an empty team.
  [[nodiscard]] int rank() const noexcept;
  /// 0 for an empty team.
  [[nodiscard]] int size() const noexcept;
  /// The world's number of the team's rank `rank`. Throws InvalidArgument outside of [0, size).
  [[nodiscard]] int world_rank(int rank) const;
  /// World ranks, in team order.
  [[nodiscard]] std::span<const int> members() const;
  /// Who the team's rank `rank` is.
  [[nodiscard]] const PeerInfo& peer(int rank) const;
  /// A number that no other team of this job has, equal on all members.
  [[nodiscard]] std::uint64_t id() const;

  /// A sub-team of these ranks *of this team*, in this order. Called by its members alone (collective among them); any
  /// other rank may call it too, and gets an empty team at once. Throws InvalidArgument for a rank out of range or
  /// named twice.
  [[nodiscard]] Team team(std::span<const int> ranks) const;
  [[nodiscard]] Team team(std::initializer_list<int> ranks) const {
    return team(std::span(ranks.begin(), ranks.size()));
  }

  [[nodiscard]] Device& device() const;
  [[nodiscard]] const std::shared_ptr<Device>& shared_device() const;
  [[nodiscard]] const Env& env() const;
  [[nodiscard]] const Log& log() const;

  // What plans and memory are built from.

  /// Collective. Gives every member all members' parcels, in team order; a barrier as well. `what` names the call:
  /// where members disagree on it, each throws an InvalidArgument that names both sides.
  [[nodiscard]] std::vector<Parcel> exchange(std::string_view what, Parcel mine) const;
  /// Collective. Throws InvalidArgument on every member, naming two that differ, unless `description` is equal on all.
  void agree(std::string_view what, const std::string& description) const;
  /// Collective; the host waits. For set-up and tests: no operation on data needs it.
  void barrier() const;
  /// The number of the last of these calls, on every member the same: so it can name what was made in it.
  [[nodiscard]] std::uint64_t sequence() const;

  /// The largest number of blocks, of any size, that a kernel may have if they wait for the peers' same blocks: few
  /// enough that those of all ranks of the world run at once, each on a multiprocessor of its own, also where ranks
  /// share a GPU; then half of it is left to their products, whose blocks want whole multiprocessors. Otherwise running
  /// blocks could fill the GPU while they wait for one that cannot start, or for what comes behind such a product.
  /// Equal on all ranks; at least 1.
  [[nodiscard]] int resident_blocks() const;

  /// Names an operation for errors; the number goes into SignalWait::operation. Equal names have one number, and those
  /// beyond the first 65536 are no longer told apart: a team keeps no more of what comes and goes on it.
  [[nodiscard]] std::uint32_t register_operation(std::string name) const;
  /// What this rank's waits of this team watch; lives as long as the team.
  [[nodiscard]] WaitControl* control() const;
  /// The deadline of each wait, on host and device. From TANDEM_TIMEOUT at first.
  [[nodiscard]] std::chrono::milliseconds timeout() const;
  /// From 1 ms to 365 days, else an InvalidArgument.
  void set_timeout(std::chrono::milliseconds timeout) const;

  // Failure. It is sticky: a team that failed stays failed, and only a new team, without the lost ranks, goes on.

  [[nodiscard]] bool failed() const noexcept;
  /// Throws what made the team fail: PeerLost, Timeout or Aborted with the facts. One load for each member if nothing
  /// did. A failure that only this rank has seen so far is told to the other members, who then fail with the same
  /// PeerLost, or with Aborted.
  void check() const;
  /// Marks the team failed on every member and releases all their waits. Never blocks; from any thread.
  void abort(const std::string& reason) const noexcept;
  /// Waits for `stream`, then `check`: after this, results count. An Error of what was queued aborts the team.
  void synchronize(StreamRef stream) const;

  /// Takes over something that work still queued may use: a collective constructor or the end of any of the world's
  /// teams lets go of `object` where it finds nothing queued on the device, or else the world's end does, which waits
  /// for the device. It must not hold this team, whose world would never end. On an empty team it goes at once. Never
  /// throws, and blocks only where there is no memory for the list: then until the device has nothing to run.
  void reclaim(std::shared_ptr<void> object) const noexcept;
  /// Lets the graph that `stream` is being captured into, and what is made from it, hold `object`; when the last of
  /// them goes, `object` goes the way of `reclaim`, and for it the same holds. Nothing if the stream is not captured.
  void hold_in_graph(StreamRef stream, std::shared_ptr<void> object) const;
  /// Releases what was handed to `reclaim` if the device has nothing left to run within 100 ms, else nothing. Called by
  /// collective constructors, which must not wait for what other teams have queued.
  void collect() const;

  /// The object kept in this team under `key`, made by `make` if there is none: the cache behind convenience functions.
  /// It goes with the team: `make` is given this team as a handle that does not keep it alive, to build the object on.
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

}  // namespace tandem

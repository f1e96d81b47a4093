// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/device/signal.hpp"
#include "tandem/team/team.hpp"

#include "team/control_page.hpp"
#include "team/core.hpp"
#include "team/formation.hpp"

namespace tandem {

/// One team on one rank.
///
/// Failure: the first cause is kept. It is written under `failure_mutex_` before `control()->abort`, which ends the
/// waits, is set; so a thread that sees the word set finds the cause. A wait on the device that misses its deadline, or
/// whose peer has departed, sets the word itself and stores its facts in `control()->failure`, from which the first
/// `check` makes the cause.
///
/// After such a wait its stream continues, and may overwrite memory that peers are reading. So results are invalid on
/// all ranks once any member's word is set: `check` reads the words of all members, and does not rely on messages.
class Team::State {
 public:
  /// The handles share ownership of `core` as well; the last one passes the team to it (see Core::retire).
  [[nodiscard]] static std::shared_ptr<State> make(const std::shared_ptr<Core>& core, std::uint64_t id,
                                                   std::vector<int> members);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] Core& core() const noexcept { return core_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const std::vector<int>& members() const noexcept { return members_; }
  [[nodiscard]] WaitControl* control() const noexcept { return page_.data(); }

  /// The members' first collective call, named `what` in errors: maps the other members' control pages.
  void meet(std::string_view what);
  [[nodiscard]] std::shared_ptr<State> make_team(std::span<const int> ranks);
  [[nodiscard]] std::shared_ptr<State> split(int color, int key);
  [[nodiscard]] std::shared_ptr<State> shrink();
  [[nodiscard]] std::vector<Parcel> exchange(std::string_view what, Parcel mine);
  void agree(std::string_view what, const std::string& description);
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::uint32_t register_operation(std::string name);
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept;
  void set_timeout(std::chrono::milliseconds timeout);

  [[nodiscard]] bool failed() const noexcept;
  /// Throws InvalidArgument in a forked child, whose messages would be taken for its parent's.
  void refuse_forked_child() const;
  void check();
  void abort(const std::string& reason) noexcept;
  /// As `abort`, for a rank whose world an exception ends: the members fail with a PeerLost that names it.
  void abandon() noexcept;
  // The bootstrap's news. Called by its thread or, for earlier news, by Core::enter.
  void peer_lost(int world_rank) noexcept;
  void peer_departed(int world_rank) noexcept;
  void peer_aborted(int world_rank, const Abort& abort) noexcept;

  void collect();
  /// Destroys the cached objects; called when the last handle is gone.
  void forget_cached() noexcept { cache_.clear(); }
  [[nodiscard]] std::map<std::string, std::shared_ptr<void>>& cache() noexcept { return cache_; }

 private:
  State(Core& core, std::uint64_t id, std::vector<int> members);

  enum class Cause : std::uint8_t { none, lost, timeout, aborted };
  struct Failure {
    Cause cause = Cause::none;
    std::string what{};
    PeerInfo peer{.rank = -1};  // that was lost or, with its rank alone, waited for
    bool told = false;          // the other members know, or notice by themselves

    [[nodiscard]] static Failure aborted(std::string what) {
      return {.cause = Cause::aborted, .what = std::move(what)};
    }
    /// `peer`: the world rank that was waited for; -1 if it was not a single one.
    [[nodiscard]] static Failure timed_out(std::string what, int peer) {
      return {.cause = Cause::timeout, .what = std::move(what), .peer = {.rank = peer}};
    }
    [[nodiscard]] static Failure lost(std::string what, PeerInfo peer) {
      return {.cause = Cause::lost, .what = std::move(what), .peer = std::move(peer)};
    }
    [[nodiscard]] Failure known_to_all() && {
      told = true;
      return std::move(*this);
    }
  };

  [[nodiscard]] std::string describe() const;
  /// A team of these world ranks, which include this one. `was_aborted`: this team was when the call began.
  [[nodiscard]] std::shared_ptr<State> make_team_of(const std::vector<int>& members,
                                                    Formation::Clock::time_point deadline, bool was_aborted);
  /// Stores the failure if it is the first, and ends this rank's waits.
  void fail(Failure failure) noexcept;
  /// Whether a member aborted it, or gave up waiting, before anything else made it fail.
  [[nodiscard]] bool is_aborted() const;
  [[noreturn]] void throw_failure();
  /// What a wait of this rank had seen when a failure elsewhere ended it, to append to the error; empty if none.
  [[nodiscard]] std::string wait_cut_short() const;
  [[nodiscard]] std::string operation_name(std::uint32_t number) const;
  [[nodiscard]] bool is_member(int world_rank) const;
  /// Whether any peer's control word is set.
  [[nodiscard]] bool peer_failed() const noexcept;
  void fail_like_peer();
  /// The reason why waits of the world rank `rank`, whose control page this is, have ended.
  [[nodiscard]] Failure failure_of_wait(const WaitControl& control, int rank) const;
  [[nodiscard]] Failure loss(int world_rank, bool left, std::string_view during) const;
  void tell_members(const Failure& failure) noexcept;
  /// Called in a catch block: makes the exception that ended an `exchange` the team's failure, and throws it.
  [[noreturn]] void fail_exchange(std::string_view what);
  [[nodiscard]] std::vector<Parcel> send_and_receive(std::string_view what, std::uint64_t sequence, Parcel mine);

  Core& core_;  // kept alive by the handles; keeps this alive once they are gone
  std::uint64_t id_;
  std::vector<int> members_;
  int rank_ = -1;
  ControlPage page_;
  std::vector<std::pair<int, ControlPage>> peers_;  // by world rank
  std::atomic<std::uint64_t> sequence_{0};          // of the last call of `exchange`
  Formation formation_;

  mutable std::mutex failure_mutex_;
  Failure failure_;

  mutable std::mutex operations_mutex_;
  std::map<std::string, std::uint32_t> operations_;  // numbered from 1, equally on all members

  std::map<std::string, std::shared_ptr<void>> cache_;
};

}  // namespace tandem

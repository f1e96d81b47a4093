// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/device/signal.hpp"
#include "tandem/team/team.hpp"

#include "team/control_page.hpp"
#include "team/core.hpp"
#include "team/formation.hpp"

namespace tandem {

/// One team on one rank.
///
/// Failure: the first cause stays. It is written under `failure_mutex_`, and only then is `control()->abort` set, which
/// ends the waits; so who sees the word set finds the cause. A wait on the device that misses its deadline, or
/// whose peer has departed, sets the word itself and leaves its facts in `control()->failure`, from which the first
/// `check` makes the cause.
///
/// A wait that ends so lets its stream go on, into memory that peers may be reading. So results count on no rank once
/// any member's word is set: `check` looks at all of them, not only at what messages have told.
class Team::State {
 public:
  /// The handles share `core` as well; the last one gives the team to it (see Core::retire).
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

  /// The members' first call together, under this name: from here on each sees the others' control words.
  void meet(std::string_view what);
  [[nodiscard]] std::shared_ptr<State> make_team(std::span<const int> ranks);
  [[nodiscard]] std::vector<Parcel> exchange(std::string_view what, Parcel mine);
  void agree(std::string_view what, const std::string& description);
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::uint32_t register_operation(std::string name);
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept;
  void set_timeout(std::chrono::milliseconds timeout);

  [[nodiscard]] bool failed() const noexcept;
  void check();
  void abort(const std::string& reason) noexcept;
  // News of the bootstrap, from its thread.
  void peer_lost(int world_rank) noexcept;
  void peer_departed(int world_rank) noexcept;
  void peer_aborted(int world_rank, const Abort& abort) noexcept;

  void collect();
  /// No handle is left: neither are the objects that the team kept.
  void forget_cached() noexcept { cache_.clear(); }
  [[nodiscard]] std::map<std::string, std::shared_ptr<void>>& cache() noexcept { return cache_; }

 private:
  State(Core& core, std::uint64_t id, std::vector<int> members);

  enum class Cause : unsigned char { none, lost, timeout, aborted };
  struct Failure {
    Cause cause = Cause::none;
    bool told = false;  // the other members know, or find out by themselves
    std::string what;
    int rank = -1;  // of the world: who was lost or waited for
    std::string host;
    std::int64_t pid = 0;
  };

  [[nodiscard]] std::string describe() const;
  /// Keeps the failure if it is the first, and ends this rank's waits.
  void fail(Failure failure) noexcept;
  [[noreturn]] void throw_failure();
  /// What a wait of this rank saw when a failure elsewhere ended it, to be told with that; empty where none has.
  [[nodiscard]] std::string wait_cut_short() const;
  [[nodiscard]] std::string operation_name(std::uint32_t number) const;
  [[nodiscard]] bool is_member(int world_rank) const;
  /// Some peer's word is set, and this rank has not been told why.
  [[nodiscard]] bool peer_failed() const noexcept;
  void fail_like_peer();
  /// Why the waits of `rank`, which its control word describes, ended.
  [[nodiscard]] Failure failure_of_wait(const WaitControl& control, int rank) const;
  [[nodiscard]] Failure loss(int world_rank, bool left, std::string_view during) const;
  void tell_members(const Failure& failure) noexcept;
  /// In a handler: what ends a call of `exchange` is the team's failure.
  [[noreturn]] void fail_exchange(std::string_view what);
  [[nodiscard]] std::vector<Parcel> send_and_receive(std::string_view what, std::uint64_t sequence, Parcel mine);

  Core& core_;  // which the handles keep, and which keeps this once they are gone
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
  std::map<std::string, std::uint32_t> operations_;  // numbered from 1 on, alike on all members

  std::map<std::string, std::shared_ptr<void>> cache_;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/log.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/bootstrap.hpp"
#include "tandem/team/launch.hpp"
#include "tandem/team/team.hpp"

#include "base/trace_file.hpp"
#include "team/names.hpp"
#include "team/reclaimer.hpp"

namespace tandem {

/// Marks that a rank of a job lives in this process, so that a second `init` is an error and no hang.
class Seat {
 public:
  Seat(const std::string& job, int rank);
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

 private:
  std::string key_;
};

/// What all teams of one world on one rank stand on; lives until the last of them and the world are gone. It brings the
/// news of the bootstrap (a peer is gone, a peer aborted) to the teams that they concern.
class Core : public std::enable_shared_from_this<Core> {
 public:
  enum class Presence : unsigned char { here, left, lost };

  /// `trace` is null unless the run is to be traced; `resident_blocks` as Team has it.
  Core(std::unique_ptr<Seat> seat, Launch launch, Env env, Log log, std::unique_ptr<TraceFile> trace,
       std::shared_ptr<Device> device, int resident_blocks, std::unique_ptr<Bootstrap> bootstrap);
  /// Waits for what is queued on the device where something is left to release or there is a trace, which it writes.
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  [[nodiscard]] const Launch& launch() const noexcept { return launch_; }
  [[nodiscard]] const Env& env() const noexcept { return env_; }
  [[nodiscard]] const Log& log() const noexcept { return log_; }
  [[nodiscard]] const std::shared_ptr<Device>& device() const noexcept { return device_; }
  [[nodiscard]] int resident_blocks() const noexcept { return resident_blocks_; }
  [[nodiscard]] Bootstrap& bootstrap() const noexcept { return *bootstrap_; }
  [[nodiscard]] Reclaimer& reclaimer() noexcept { return reclaimer_; }

  /// An id that no other rank gives out, and that this one has not given out before.
  [[nodiscard]] std::uint64_t next_team_id();
  [[nodiscard]] Presence presence(int world_rank) const;
  /// Which of these world ranks is gone: of several the first, which the others may have left for.
  [[nodiscard]] std::optional<Gone> first_gone(std::span<const int> world_ranks) const;
  /// True in a child that was forked from the process that made this.
  [[nodiscard]] bool forked() const noexcept;

  /// From now on `team` hears of what concerns it; what came before it was there is told at once.
  void enter(Team::State& team);
  /// After this, `team` hears nothing more.
  void leave(Team::State& team) noexcept;
  /// Takes over a team whose last handle is gone. Its waits may still be queued: it goes once they have run, and until
  /// then hears what would end them.
  void retire(std::unique_ptr<Team::State> team) noexcept;

 private:
  void on_lost(int peer, bool clean);
  /// Tells a team of a rank that is gone. `mutex_` is held.
  void announce(Team::State& team, int gone) const noexcept;
  void on_aborted(int peer, const Abort& abort);

  std::unique_ptr<Seat> seat_;
  Launch launch_;
  Env env_;
  Log log_;
  std::unique_ptr<TraceFile> trace_;
  std::shared_ptr<Device> device_;
  int resident_blocks_;
  std::int64_t process_;
  Reclaimer reclaimer_;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Team::State*> teams_;
  std::map<std::uint64_t, std::pair<int, Abort>> early_aborts_;  // of teams that this rank has yet to enter
  std::map<int, std::vector<bool>> left_;  // by the rank that gave a team's id: the numbers that are over, a bit each
  std::vector<Presence> presence_;
  std::vector<int> gone_;  // in the order in which this rank heard of it
  std::uint32_t teams_made_ = 0;

  std::unique_ptr<Bootstrap> bootstrap_;  // goes first: its thread uses everything above
};

}  // namespace tandem

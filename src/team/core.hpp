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

#include "base/home_process.hpp"
#include "base/trace_file.hpp"
#include "team/names.hpp"
#include "team/reclaimer.hpp"

namespace tandem {

/// Marks that this process has a world of this job and rank, so that a second `init` throws instead of hanging.
class Seat {
 public:
  Seat(const std::string& job, int rank);
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

 private:
  std::string key_;
};

/// What all teams of one world share on one rank; lives until the world and the last team are destroyed. It forwards
/// the bootstrap's news (a peer is gone, a peer aborted a team) to the teams concerned.
class Core : public std::enable_shared_from_this<Core> {
 public:
  enum class Presence : std::uint8_t { here, left, lost };

  /// `trace` is null unless the run is to be traced; for `resident_blocks` see Team::resident_blocks.
  Core(std::unique_ptr<Seat> seat, Launch launch, Env env, Log log, std::unique_ptr<TraceFile> trace,
       std::shared_ptr<Device> device, int resident_blocks, std::unique_ptr<Bootstrap> bootstrap);
  /// Waits for the device's queued work if anything is left to release or there is a trace, and writes the trace. If an
  /// exception is the reason, the teams fail first, on all their members.
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

  /// An id that no other rank assigns, and that this one has not assigned before.
  [[nodiscard]] std::uint64_t next_team_id();
  [[nodiscard]] Presence presence(int world_rank) const;
  /// The world ranks that have left or are lost, in the order in which this rank heard of it.
  [[nodiscard]] std::vector<int> gone() const;
  /// Counts a rank among them of whose loss this rank was told, before the bootstrap notices: whoever catches a
  /// PeerLost finds its rank in `gone`.
  void told_of_loss(int world_rank) noexcept;
  /// Which of these world ranks is gone. Of several, the first: the others may have left because of it.
  [[nodiscard]] std::optional<Gone> first_gone(std::span<const int> world_ranks) const;
  /// Whether this is a forked child of the process that constructed this object.
  [[nodiscard]] bool forked() const noexcept;

  /// Registers `team` for the bootstrap's news; earlier news that concerns it is delivered at once.
  void enter(Team::State& team);
  /// Unregisters `team`: no news is delivered to it after this.
  void leave(Team::State& team) noexcept;
  /// Takes over a team whose last handle is gone. Its waits may still be queued: it is destroyed once they have run,
  /// and until then gets the news that ends them.
  void retire(std::unique_ptr<Team::State> team) noexcept;

 private:
  /// `told_of_loss`, for a caller that holds `mutex_`.
  void count_as_gone(int world_rank) noexcept;
  void abandon_teams() noexcept;
  void on_lost(int peer, bool clean);
  /// Tells a team that a rank is gone. The caller holds `mutex_`.
  void announce(Team::State& team, int gone) const noexcept;
  void on_aborted(int peer, const Abort& abort);

  std::unique_ptr<Seat> seat_;
  Launch launch_;
  Env env_;
  Log log_;
  std::unique_ptr<TraceFile> trace_;
  std::shared_ptr<Device> device_;
  int resident_blocks_;
  HomeProcess home_;
  int exceptions_;  // in flight when this was constructed
  Reclaimer reclaimer_;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Team::State*> teams_;
  std::map<std::uint64_t, std::pair<int, Abort>> early_aborts_;  // of teams that this rank has not entered yet
  std::map<int, std::vector<bool>> left_;  // by the rank that assigned a team's id: a bit per number, set once left
  std::vector<Presence> presence_;
  std::vector<int> gone_;  // in the order in which this rank heard of it; each once
  std::uint32_t teams_made_ = 0;

  std::unique_ptr<Bootstrap> bootstrap_;  // destroyed first: its thread uses everything above
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "team/core.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/team_state.hpp"

namespace tandem {
namespace {

struct Seats {
  std::mutex mutex;
  std::set<std::string> taken;
};

Seats& seats() {
  static Seats& all = *new Seats;  // never destroyed: a world in a global variable may outlive it
  return all;
}

// A team's id: the world rank that assigned it, and how many ids that rank has assigned, this one included.
constexpr int giver_bit = 32;
int giver_of(std::uint64_t id) noexcept { return static_cast<int>(id >> giver_bit); }
std::size_t number_of(std::uint64_t id) noexcept { return id & ((std::uint64_t{1} << giver_bit) - 1); }

}  // namespace

Seat::Seat(const std::string& job, int rank) : key_(format("{}/{}/{}", ::getpid(), rank, job)) {
  const std::lock_guard lock(seats().mutex);
  if (!seats().taken.insert(key_).second) {
    throw InvalidArgument(
        format("init was called while a world of job '{}' lives already in this process (rank {}): "
               "let go of it and of its teams first",
               job, rank));
  }
}

Seat::~Seat() {
  const std::lock_guard lock(seats().mutex);
  seats().taken.erase(key_);
}

Core::Core(std::unique_ptr<Seat> seat, Launch launch, Env env, Log log, std::unique_ptr<TraceFile> trace,
           std::shared_ptr<Device> device, int resident_blocks, std::unique_ptr<Bootstrap> bootstrap)
    : seat_(std::move(seat)),
      launch_(std::move(launch)),
      env_(std::move(env)),
      log_(std::move(log)),
      trace_(std::move(trace)),
      device_(std::move(device)),
      resident_blocks_(resident_blocks),
      exceptions_(std::uncaught_exceptions()),
      reclaimer_(device_, log_),
      presence_(static_cast<std::size_t>(launch_.world_size), Presence::here),
      bootstrap_(std::move(bootstrap)) {
  gone_.reserve(presence_.size());  // recording a lost peer must not allocate
  bootstrap_->listen({[this](int peer, bool clean) { on_lost(peer, clean); },
                      [this](int peer, const Abort& abort) { on_aborted(peer, abort); }});
}

// The reclaimer finishes before the bootstrap is destroyed: the news that ends waits of retired teams comes through the
// bootstrap, and peers must not be told that this rank has ended before all its queued work has run.
Core::~Core() {
  if (forked()) {
    reclaimer_.forget();
    return;
  }
  if (std::uncaught_exceptions() > exceptions_) abandon_teams();
  if (!reclaimer_.finish()) bootstrap_->end_as_lost();
  if (trace_ == nullptr) return;
  try {
    device_->trace_collect();
    trace_->add(device_->trace().chrome_events(launch_.rank));
  } catch (const std::exception& error) {
    log_.write(LogLevel::warn, format("rank {} is missing from the trace: {}", launch_.rank, error.what()));
  }
}

/// For a world that an exception ends: peers are told of the loss now, and queued waits for them end. Otherwise this
/// rank would wait for its device until their deadlines, and its peers for this rank.
void Core::abandon_teams() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, team] : teams_) team->abandon();
}

std::uint64_t Core::next_team_id() {
  const std::lock_guard lock(mutex_);
  return (static_cast<std::uint64_t>(launch_.rank) << giver_bit) + ++teams_made_;
}

Core::Presence Core::presence(int world_rank) const {
  const std::lock_guard lock(mutex_);
  return presence_[static_cast<std::size_t>(world_rank)];
}

std::vector<int> Core::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

std::optional<Gone> Core::first_gone(std::span<const int> world_ranks) const {
  const std::lock_guard lock(mutex_);
  const auto first = std::ranges::find_first_of(gone_, world_ranks);
  if (first == gone_.end()) return std::nullopt;
  return Gone{*first, presence_[static_cast<std::size_t>(*first)] == Presence::left};
}

void Core::told_of_loss(int world_rank) noexcept {
  const std::lock_guard lock(mutex_);
  count_as_gone(world_rank);
}

void Core::count_as_gone(int world_rank) noexcept {
  const bool other = world_rank >= 0 && world_rank < launch_.world_size && world_rank != launch_.rank;
  if (other && std::ranges::find(gone_, world_rank) == gone_.end()) gone_.push_back(world_rank);
}

bool Core::forked() const noexcept { return home_.is_left(); }

void Core::enter(Team::State& team) {
  const std::lock_guard lock(mutex_);
  teams_[team.id()] = &team;
  for (const int rank : gone_) {
    // Of the others this rank was only told: the bootstrap's news of how they went follows.
    if (presence_[static_cast<std::size_t>(rank)] != Presence::here) announce(team, rank);
  }
  if (const auto early = early_aborts_.find(team.id()); early != early_aborts_.end()) {
    team.peer_aborted(early->second.first, early->second.second);
    early_aborts_.erase(early);
  }
}

void Core::leave(Team::State& team) noexcept {
  const std::lock_guard lock(mutex_);
  teams_.erase(team.id());
  try {
    std::vector<bool>& left = left_[giver_of(team.id())];
    const std::size_t number = number_of(team.id());
    if (left.size() <= number) left.resize(number + 1);
    left[number] = true;
  } catch (...) {  // no memory: then a late abort of this team stays in `early_aborts_`, unused
  }
}

void Core::retire(std::unique_ptr<Team::State> team) noexcept {
  if (forked()) return;  // a forked child's copy: no queued work runs here
  // Long enough for an idle device to answer, too short to be noticed if it is busy. Querying a CUDA device would
  // invalidate any graph capture in progress in the process: there, the next collective constructor does it.
  constexpr std::chrono::milliseconds glance{2};
  try {
    team->forget_cached();
    reclaimer_.add(std::shared_ptr<Team::State>(std::move(team)));
    if (device_->id().type == DeviceType::host) reclaimer_.collect(glance);
  } catch (...) {  // no memory to hand it over: it is never freed
    [[maybe_unused]] const Team::State* const never_freed = team.release();
  }
}

void Core::announce(Team::State& team, int gone) const noexcept {
  if (presence_[static_cast<std::size_t>(gone)] == Presence::left) {
    team.peer_departed(gone);
  } else {
    team.peer_lost(gone);
  }
}

void Core::on_lost(int peer, bool clean) {
  {
    const std::lock_guard lock(mutex_);
    presence_[static_cast<std::size_t>(peer)] = clean ? Presence::left : Presence::lost;
    count_as_gone(peer);
    for (const auto& [id, team] : teams_) announce(*team, peer);
  }
  // Logged last, since writing may block if nobody reads the log.
  if (log_.enabled(LogLevel::info)) {
    log_.write(LogLevel::info, format("rank {} {}", peer, clean ? "has ended its world" : "is lost"));
  }
}

void Core::on_aborted(int peer, const Abort& abort) {
  const std::lock_guard lock(mutex_);
  count_as_gone(abort.lost);
  if (const auto found = teams_.find(abort.team); found != teams_.end()) {
    found->second->peer_aborted(peer, abort);
    return;
  }
  // A peer may abort a team before this rank has entered it, or after this rank has left it. In the latter case the
  // abort is not kept, or a program that keeps making teams would accumulate them.
  const auto left = left_.find(giver_of(abort.team));
  const std::size_t number = number_of(abort.team);
  const bool is_left = left != left_.end() && number < left->second.size() && left->second[number];
  if (!is_left) early_aborts_.insert_or_assign(abort.team, std::pair(peer, abort));
  // If this rank enters the team later, it fails before it receives anything; if not, nobody receives its parcels.
  bootstrap_->drop_beyond(abort.team, 0);
}

}  // namespace tandem

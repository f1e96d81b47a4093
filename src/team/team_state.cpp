// SPDX-License-Identifier: Apache-2.0
#include "team/team_state.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/env_check.hpp"
#include "base/format.hpp"
#include "team/descriptor_limit.hpp"
#include "team/lost_peer.hpp"
#include "team/names.hpp"
#include "team/socket.hpp"
#include "team/wire.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t formation_bit = std::uint64_t{1} << 63;

std::uint32_t load(const std::uint32_t& word) noexcept {
  return std::atomic_ref(const_cast<std::uint32_t&>(word)).load(std::memory_order_acquire);
}

Parcel copy_of(const Parcel& parcel) {
  Parcel copy;
  copy.bytes = parcel.bytes;
  for (const FileDescriptor& descriptor : parcel.descriptors) copy.descriptors.push_back(duplicate(descriptor));
  return copy;
}

/// Sends an abort of a team to all its members but this one.
void tell(Core& core, const std::vector<int>& members, const Abort& abort) noexcept {
  for (const int member : members) {
    if (member != core.launch().rank) core.bootstrap().send_abort(member, abort);
  }
}

}  // namespace

std::shared_ptr<Team::State> Team::State::make(const std::shared_ptr<Core>& core, std::uint64_t id,
                                               std::vector<int> members) {
  return {new State(*core, id, std::move(members)),
          [core](State* team) { core->retire(std::unique_ptr<State>(team)); }};
}

Team::State::State(Core& core, std::uint64_t id, std::vector<int> members)
    : core_(core),
      id_(id),
      members_(std::move(members)),
      page_(core_.launch().world_size),
      formation_(core_.bootstrap(), core_.launch().rank, id | formation_bit) {
  const auto self = std::find(members_.begin(), members_.end(), core_.launch().rank);
  rank_ = static_cast<int>(self - members_.begin());
  core_.device()->register_memory(page_.data(), page_.bytes());
  control()->timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(core_.env().timeout).count());
  try {
    core_.enter(*this);
  } catch (...) {
    core_.device()->unregister_memory(page_.data());
    throw;
  }
}

Team::State::~State() {
  if (core_.forked()) return;  // a forked child's copy
  core_.leave(*this);
  core_.device()->unregister_memory(page_.data());
}

void Team::State::meet(std::string_view what) {
  Parcel mine;
  mine.descriptors.push_back(page_.take_descriptor());
  const std::vector<Parcel> all = exchange(what, std::move(mine));
  try {
    peers_.reserve(all.size() - 1);
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (static_cast<int>(r) == rank_) continue;
      peers_.emplace_back(members_[r], ControlPage(all[r].descriptors.at(0), core_.launch().world_size));
    }
  } catch (const std::exception& error) {
    abort(format("'{}' failed there: {}", what, error.what()));
    throw;
  }
}

std::string Team::State::describe() const { return format("team {} of ranks {}", id_, list_ranks(members_)); }

std::shared_ptr<Team::State> Team::State::make_team(std::span<const int> ranks) {
  refuse_forked_child();
  std::vector<int> members;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= static_cast<int>(members_.size())) {
      throw InvalidArgument(format("rank {} cannot be in a sub-team of {}; allowed: 0 to {} (ranks of that team)", rank,
                                   describe(), members_.size() - 1));
    }
    const int member = members_[static_cast<std::size_t>(rank)];
    if (std::find(members.begin(), members.end(), member) != members.end()) {
      throw InvalidArgument(format("rank {} is named twice in {}; allowed: each rank once", rank, list_ranks(ranks)));
    }
    members.push_back(member);
  }
  const int self = core_.launch().rank;
  if (std::find(members.begin(), members.end(), self) == members.end()) return nullptr;

  return make_team_of(members, Formation::Clock::now() + timeout(), is_aborted());
}

std::shared_ptr<Team::State> Team::State::make_team_of(const std::vector<int>& members,
                                                       Formation::Clock::time_point deadline, bool was_aborted) {
  const int self = core_.launch().rank;
  // A team that has failed can still make teams. One that is aborted meanwhile ends this call as it ends all waits.
  const auto first_gone = [this, was_aborted](std::span<const int> of) {
    if (!was_aborted && is_aborted()) throw_failure();
    return core_.first_gone(of);
  };
  std::uint64_t id = 0;
  try {
    id = formation_.form(members, core_.next_team_id(), deadline, first_gone);
  } catch (const PeerLost& error) {
    core_.told_of_loss(error.rank());
    throw lost_peer(format("a team of ranks {} could not be made: {}", list_ranks(members), error.what()),
                    peer_of(error));
  } catch (const Timeout& error) {
    throw Timeout(format("a team of ranks {} could not be made within {} ms: {}, says rank {}", list_ranks(members),
                         timeout().count(), error.what(), self),
                  error.peer());
  } catch (const Aborted& error) {
    throw Aborted(
        format("a team of ranks {} could not be made: {}, says rank {}", list_ranks(members), error.what(), self));
  }
  std::shared_ptr<State> team;
  try {
    team = make(core_.shared_from_this(), id, members);
  } catch (const std::exception& error) {
    // The other members have agreed on this team as well, and wait for this rank.
    const Aborted why(format("it could not make team {}: {}", id, error.what()));
    tell(core_, members, {id, -1, why.what()});
    core_.bootstrap().drop_beyond(id, 0);
    formation_.withdraw(why);
    throw;
  }
  try {
    team->meet("team");
  } catch (const std::exception& error) {
    formation_.withdraw(error);
    throw;
  }
  if (core_.log().enabled(LogLevel::trace)) core_.log().write(LogLevel::trace, format("made {}", team->describe()));
  return team;
}

std::shared_ptr<Team::State> Team::State::split(int color, int key) {
  Parcel mine;
  mine.bytes = WireWriter().number(color).number(key).take();
  const std::vector<Parcel> all = exchange("split", std::move(mine));
  if (color < 0) return nullptr;
  std::vector<std::pair<int, int>> alike;  // key and rank
  for (std::size_t r = 0; r < all.size(); ++r) {
    WireReader reader(all[r].bytes);
    const auto its_color = reader.number<int>();
    const auto its_key = reader.number<int>();
    if (its_color == color) alike.emplace_back(its_key, static_cast<int>(r));
  }
  std::ranges::sort(alike);
  std::vector<int> ranks;
  for (const auto& [its_key, rank] : alike) ranks.push_back(rank);
  return make_team(ranks);
}

std::shared_ptr<Team::State> Team::State::shrink() {
  refuse_forked_child();
  const auto deadline = Formation::Clock::now() + timeout();
  const bool was_aborted = is_aborted();
  // Until the members that are left know of the same losses they list different ranks, and attempts fail.
  while (true) {
    const std::vector<int> gone = core_.gone();
    std::vector<int> left;
    std::ranges::copy_if(members_, std::back_inserter(left),
                         [&](int member) { return std::ranges::find(gone, member) == gone.end(); });
    const auto expect_time_left = [&](const Error& error) {
      if (Formation::Clock::now() < deadline) return;
      throw Timeout(format("the members of {} that are left did not agree on a team within {} ms: {}", describe(),
                           timeout().count(), error.what()),
                    -1);
    };
    try {
      return make_team_of(left, deadline, was_aborted);
    } catch (const PeerLost& error) {
      expect_time_left(error);
    } catch (const InvalidArgument& error) {
      expect_time_left(error);
    }
  }
}

std::vector<Parcel> Team::State::exchange(std::string_view what, Parcel mine) {
  check();
  for (const FileDescriptor& each : mine.descriptors)
    expect_open(each);  // before anything is sent: the peers know nothing of it
  const std::uint64_t sequence = ++sequence_;
  try {
    return send_and_receive(what, sequence, std::move(mine));
  } catch (const InvalidArgument&) {
    throw;  // a mismatch that all members see, so they are still in step
  } catch (...) {
    core_.bootstrap().drop_beyond(id_, sequence - 1);
    fail_exchange(what);
  }
}

void Team::State::fail_exchange(std::string_view what) {
  try {
    throw;
  } catch (const PeerLost& error) {
    fail(Failure::lost(format("{}: '{}' of {}, says rank {}", error.what(), what, describe(), core_.launch().rank),
                       peer_of(error)));
  } catch (const Timeout& error) {
    fail(Failure::timed_out(error.what(), error.peer()));
  } catch (const Aborted&) {
    throw;
  } catch (const std::exception& error) {
    abort(format("'{}' failed there: {}", what, error.what()));
    throw;
  }
  throw_failure();
}

std::vector<Parcel> Team::State::send_and_receive(std::string_view what, std::uint64_t sequence, Parcel mine) {
  Bootstrap& bootstrap = core_.bootstrap();
  const auto deadline = Bootstrap::Clock::now() + timeout();
  const std::size_t size = members_.size();
  const auto self = static_cast<std::size_t>(rank_);
  // Each peer sends as many, and each is sent its own duplicates.
  if (!mine.descriptors.empty()) make_room_for_descriptors(2 * size * mine.descriptors.size(), core_.log());

  Parcel packed{WireWriter().text(what).rest(mine.bytes).take(), std::move(mine.descriptors)};
  std::exception_ptr gone;
  for (std::size_t step = 1; step < size; ++step) {
    const int peer = members_[(self + step) % size];
    try {
      bootstrap.send(peer, id_, sequence, copy_of(packed));
    } catch (const PeerLost&) {  // the other peers still get their parcels
      gone = std::current_exception();
    }
  }
  if (gone) std::rethrow_exception(gone);

  std::vector<Parcel> parcels(size);
  parcels[self] = std::move(packed);
  std::vector<std::size_t> missing;
  for (std::size_t step = 1; step < size; ++step) missing.push_back((self + step) % size);
  const auto stop = [this] {
    if (load(control()->abort) != 0) throw_failure();
  };
  while (!missing.empty()) {
    try {
      parcels[missing.front()] = bootstrap.receive(members_[missing.front()], id_, sequence, deadline, stop);
      missing.erase(missing.begin());
    } catch (const Timeout&) {
      std::vector<int> ranks;
      for (const std::size_t r : missing) {
        if (!bootstrap.try_receive(members_[r], id_, sequence)) ranks.push_back(members_[r]);
      }
      if (ranks.empty()) ranks.push_back(members_[missing.front()]);
      std::string names;
      for (const int r : ranks) names += format("{}{}", names.empty() ? "" : ", ", to_string(bootstrap.peer(r)));
      throw Timeout(format("'{}' of {} waited {} ms for {}, says rank {}", what, describe(), timeout().count(), names,
                           core_.launch().rank),
                    ranks.size() == 1 ? ranks[0] : -1);
    }
  }
  bootstrap.flush(members_, deadline, stop);

  std::size_t differs = 0;
  std::vector<std::string> names;
  for (std::size_t r = 0; r < size; ++r) {
    WireReader reader(parcels[r].bytes);
    names.push_back(reader.text());
    const auto rest = reader.rest();
    parcels[r].bytes = std::vector<std::byte>(rest.begin(), rest.end());
    if (differs == 0 && names[r] != names[0]) differs = r;
  }
  if (differs != 0) {
    throw InvalidArgument(
        format("the members of {} make different calls: {} calls '{}', {} calls '{}'; allowed: the "
               "same collective calls in the same order",
               describe(), to_string(bootstrap.peer(members_[0])), names[0],
               to_string(bootstrap.peer(members_[differs])), names[differs]));
  }
  return parcels;
}

void Team::State::agree(std::string_view what, const std::string& description) {
  const auto raw = std::as_bytes(std::span(description));
  const std::vector<Parcel> all = exchange(what, {std::vector<std::byte>(raw.begin(), raw.end()), {}});
  const auto text = [&all](std::size_t r) {
    return std::string(reinterpret_cast<const char*>(all[r].bytes.data()), all[r].bytes.size());
  };
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r].bytes == all[0].bytes) continue;
    throw InvalidArgument(format("the members of {} call '{}' with different arguments: {} has '{}', {} has '{}'",
                                 describe(), what, to_string(core_.bootstrap().peer(members_[0])), text(0),
                                 to_string(core_.bootstrap().peer(members_[r])), text(r)));
  }
}

std::uint32_t Team::State::register_operation(std::string name) {
  constexpr std::size_t most = 65536;
  const std::lock_guard lock(operations_mutex_);
  if (const auto known = operations_.find(name); known != operations_.end()) return known->second;
  if (operations_.size() == most) return 0;
  const auto number = static_cast<std::uint32_t>(operations_.size() + 1);
  operations_.emplace(std::move(name), number);
  return number;
}

std::string Team::State::operation_name(std::uint32_t number) const {
  const std::lock_guard lock(operations_mutex_);
  const auto found =
      std::find_if(operations_.begin(), operations_.end(), [&](const auto& each) { return each.second == number; });
  return found == operations_.end() ? "an operation" : found->first;
}

std::chrono::milliseconds Team::State::timeout() const noexcept {
  const auto ns = std::atomic_ref(control()->timeout_ns).load(std::memory_order_relaxed);
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(ns));
}

void Team::State::set_timeout(std::chrono::milliseconds timeout) {
  refuse_forked_child();
  if (timeout.count() < 1 || timeout > longest_timeout) {
    throw InvalidArgument(format("a team's timeout was given as {} ms on rank {}; allowed: 1 ms to 365 days ({} ms)",
                                 timeout.count(), core_.launch().rank, longest_timeout.count()));
  }
  const auto ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(timeout).count());
  std::atomic_ref(control()->timeout_ns).store(ns, std::memory_order_relaxed);
}

bool Team::State::failed() const noexcept { return load(control()->abort) != 0 || peer_failed(); }

bool Team::State::peer_failed() const noexcept {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const auto& peer) { return load(peer.second.data()->abort) != 0; });
}

void Team::State::refuse_forked_child() const {
  if (!core_.forked()) return;
  throw InvalidArgument(format("{} was used in a process that rank {} forked; such a process is not a rank", describe(),
                               core_.launch().rank));
}

void Team::State::check() {
  refuse_forked_child();
  if (load(control()->abort) == 0) {
    if (!peer_failed()) return;
    fail_like_peer();
  }
  throw_failure();
}

void Team::State::fail_like_peer() {
  // An abort or a lost rank is reported to all members: that message is on its way. A wait that missed its deadline is
  // reported only when its rank calls `check`, but its facts are in that rank's control page.
  for (int i = 0; i < 1000; ++i) {
    for (const auto& [rank, page] : peers_) {
      if (load(page.data()->failed) != 2) continue;
      Failure failure = failure_of_wait(*page.data(), rank);
      if (failure.cause == Cause::timeout) failure.cause = Cause::aborted;  // since it was not this rank that waited
      return fail(std::move(failure));
    }
    if (load(control()->abort) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto peer =
      std::find_if(peers_.begin(), peers_.end(), [](const auto& each) { return load(each.second.data()->abort) != 0; });
  fail(Failure::aborted(format("{} has failed on {}, which has not said why", describe(),
                               to_string(core_.bootstrap().peer(peer->first)))));
}

void Team::State::fail(Failure failure) noexcept {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_.cause == Cause::none && load(control()->failed) == 0) failure_ = std::move(failure);
  }
  std::atomic_ref(control()->abort).store(1, std::memory_order_release);
  core_.bootstrap().drop_beyond(id_, sequence_);  // an exchange in progress may use what has arrived
}

bool Team::State::is_aborted() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_.cause == Cause::aborted;
}

void Team::State::throw_failure() {
  Failure failure;
  bool tell = false;
  {
    std::unique_lock lock(failure_mutex_);
    if (failure_.cause == Cause::none) {
      lock.unlock();  // `failure_of_wait` locks the core, whose lock must be taken first
      Failure found = failure_of_wait(*control(), core_.launch().rank);
      lock.lock();
      if (failure_.cause == Cause::none) failure_ = std::move(found);
    }
    tell = !std::exchange(failure_.told, true);
    failure = failure_;
  }
  if (tell) tell_members(failure);
  switch (failure.cause) {
    case Cause::lost:
      core_.told_of_loss(failure.peer.rank);
      throw lost_peer(failure.what + wait_cut_short(), failure.peer);
    case Cause::timeout: throw Timeout(failure.what, failure.peer.rank);
    default: throw Aborted(failure.what + wait_cut_short());
  }
}

bool Team::State::is_member(int world_rank) const {
  return std::find(members_.begin(), members_.end(), world_rank) != members_.end();
}

std::string Team::State::wait_cut_short() const {
  if (load(control()->cut_short) != 2) return "";
  const WaitFailure& wait = control()->cut;
  if (!is_member(wait.peer)) return "";
  return format("; interrupted: {}, which had waited {} ms for {} with {} of {} signals on channel {}",
                operation_name(wait.operation), wait.waited_ns / 1'000'000,
                to_string(core_.bootstrap().peer(wait.peer)), wait.seen, wait.expected, wait.channel);
}

Team::State::Failure Team::State::failure_of_wait(const WaitControl& control, int rank) const {
  // If a wait has failed, it is at most a few stores away from having stored its facts.
  for (int i = 0; i < 1000 && load(control.failed) != 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (load(control.failed) != 2) return Failure::aborted(format("{} was aborted", describe()));
  const WaitFailure& wait = control.failure;
  if (wait.threw != 0) {
    return Failure::aborted(format(
        "{} has failed: what rank {} had queued threw, which it is told when it synchronizes", describe(), rank));
  }
  const std::string operation = operation_name(wait.operation);
  if (!is_member(wait.peer)) {
    return Failure::timed_out(format("{} of {} reached its deadline after {} ms, says rank {}", operation, describe(),
                                     wait.waited_ns / 1'000'000, rank),
                              -1);
  }
  const bool departed = wait.departed != 0;  // which this rank may not have heard yet
  if (departed || core_.presence(wait.peer) == Core::Presence::lost) return loss(wait.peer, departed, operation);
  if (wait.error != 0) {
    return Failure::aborted(format("{} of {} could not read the memory that {} lent: {}, says rank {}", operation,
                                   describe(), to_string(core_.bootstrap().peer(wait.peer)),
                                   std::generic_category().message(wait.error), rank));
  }
  return Failure::timed_out(
      format("{} of {} waited {} ms for {}: channel {} has counted {} of {} signals, says rank {}", operation,
             describe(), wait.waited_ns / 1'000'000, to_string(core_.bootstrap().peer(wait.peer)), wait.channel,
             wait.seen, wait.expected, rank),
      wait.peer);
}

Team::State::Failure Team::State::loss(int world_rank, bool left, std::string_view during) const {
  const PeerInfo& peer = core_.bootstrap().peer(world_rank);
  return Failure::lost(
      format("{}: {} of {}, says rank {}", tell_gone(peer, left), during, describe(), core_.launch().rank), peer);
}

void Team::State::abort(const std::string& reason) noexcept {
  if (core_.forked()) return;  // a forked child is no member
  try {
    const PeerInfo& self = core_.bootstrap().peer(core_.launch().rank);
    const std::string what =
        format("{} was aborted by {}{}{}", describe(), to_string(self), reason.empty() ? "" : ": ", reason);
    const Failure failure = Failure::aborted(what).known_to_all();
    fail(failure);
    tell_members(failure);
  } catch (...) {  // no memory for the reason
    fail(Failure::aborted("aborted"));
  }
}

void Team::State::abandon() noexcept {
  try {
    const PeerInfo& self = core_.bootstrap().peer(core_.launch().rank);
    const std::string what = format("an exception ends its world, which {} belongs to", describe());
    const Failure failure = Failure::lost(what, self).known_to_all();
    fail(failure);
    tell_members(failure);
  } catch (...) {  // no memory for the reason: the members hear of the loss at the world's end
    fail(Failure::aborted("aborted").known_to_all());
  }
}

void Team::State::tell_members(const Failure& failure) noexcept {
  try {
    tell(core_, members_, {id_, failure.cause == Cause::lost ? failure.peer.rank : -1, failure.what});
  } catch (...) {  // no memory for the message: the members' own deadlines end their waits
  }
}

void Team::State::peer_lost(int world_rank) noexcept {
  if (!is_member(world_rank)) return;
  try {
    const PeerInfo& peer = core_.bootstrap().peer(world_rank);
    const std::string what = format("{}: {}, says rank {}", tell_gone(peer, false), describe(), core_.launch().rank);
    fail(Failure::lost(what, peer).known_to_all());
  } catch (...) {
    fail(Failure::lost("a rank is lost", {.rank = world_rank}).known_to_all());
  }
}

// What it sent remains valid; only waits for more signals from it fail.
void Team::State::peer_departed(int world_rank) noexcept {
  if (is_member(world_rank)) mark_departed(control(), world_rank);
}

void Team::State::peer_aborted(int world_rank, const Abort& abort) noexcept {
  try {
    const std::string what = format("told by {}: {}", to_string(core_.bootstrap().peer(world_rank)), abort.reason);
    if (abort.lost < 0) return fail(Failure::aborted(what).known_to_all());
    fail(Failure::lost(what, core_.bootstrap().peer(abort.lost)).known_to_all());
  } catch (...) {
    fail(Failure::aborted("aborted").known_to_all());
  }
}

void Team::State::collect() {
  // Short, since constructors must not wait for a busy device, but long enough for work that needs no peer to finish.
  constexpr std::chrono::milliseconds limit{100};
  core_.reclaimer().collect(limit);
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "tandem/team/team.hpp"

#include <exception>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/rethrow.hpp"
#include "team/team_state.hpp"

namespace tandem {
namespace {

/// Whether work on `stream` cannot be of this device. A device that has failed cannot tell: then it may be.
bool is_of_another(Device& device, StreamRef stream) noexcept {
  try {
    return stream.type() != device.id().type || !device.owns(stream);
  } catch (...) {
    return false;
  }
}

}  // namespace

Team::State& Team::state() const {
  if (state_ == nullptr) {
    throw InvalidArgument(
        "this team is empty: this rank is not one of its members; allowed on an empty team: ==, bool, rank(), size(), "
        "failed(), abort() and reclaim()");
  }
  return *state_;
}

int Team::rank() const noexcept { return state_ == nullptr ? -1 : state_->rank(); }
int Team::size() const noexcept { return state_ == nullptr ? 0 : static_cast<int>(state_->members().size()); }

int Team::world_rank(int rank) const {
  const State& self = state();
  if (rank < 0 || rank >= size()) {
    throw InvalidArgument(format("rank {} is not in this team; allowed: 0 to {} (asked on rank {} of the world)", rank,
                                 size() - 1, self.core().launch().rank));
  }
  return self.members()[static_cast<std::size_t>(rank)];
}

std::span<const int> Team::members() const { return state().members(); }
const PeerInfo& Team::peer(int rank) const { return state().core().bootstrap().peer(world_rank(rank)); }
std::uint64_t Team::id() const { return state().id(); }

Team Team::team(std::span<const int> ranks) const { return Team(state().make_team(ranks)); }

Team Team::split(int color, int key) const { return Team(state().split(color, key)); }
Team Team::shrink() const { return Team(state().shrink()); }

Device& Team::device() const { return *state().core().device(); }
const std::shared_ptr<Device>& Team::shared_device() const { return state().core().device(); }
const Env& Team::env() const { return state().core().env(); }
const Log& Team::log() const { return state().core().log(); }

std::vector<Parcel> Team::exchange(std::string_view what, Parcel mine) const {
  return state().exchange(what, std::move(mine));
}
void Team::agree(std::string_view what, const std::string& description) const { state().agree(what, description); }
void Team::barrier() const { (void)state().exchange("barrier", {}); }
std::uint64_t Team::sequence() const { return state().sequence(); }

std::uint32_t Team::register_operation(std::string name) const { return state().register_operation(std::move(name)); }
WaitControl* Team::control() const { return state().control(); }
int Team::resident_blocks() const { return state().core().resident_blocks(); }
std::chrono::milliseconds Team::timeout() const { return state().timeout(); }
void Team::set_timeout(std::chrono::milliseconds timeout) const { state().set_timeout(timeout); }

bool Team::failed() const noexcept { return state_ != nullptr && state_->failed(); }
void Team::check() const { state().check(); }
void Team::abort(const std::string& reason) const noexcept {
  if (state_ != nullptr) state_->abort(reason);
}

void Team::synchronize(StreamRef stream) const {
  try {
    device().stream_synchronize(stream);
  } catch (const std::exception& error) {
    if (is_of_another(device(), stream)) throw;  // nothing of this team's has failed
    // The work that failed has not produced its results, and peers may wait for them.
    abort(format("what rank {} had queued failed: {}", rank(), error.what()));
    rethrow_from(*this, "what was queued");
  } catch (...) {
    if (is_of_another(device(), stream)) throw;
    abort(format("what rank {} had queued failed", rank()));
    throw;
  }
  check();
}

void Team::reclaim(std::shared_ptr<void> object) const noexcept {
  if (state_ != nullptr) state_->core().reclaimer().add(std::move(object));
}
void Team::hold_in_graph(StreamRef stream, std::shared_ptr<void> object) const {
  if (device().stream_capture(stream) == 0) return;
  device().hold_in_graph(stream, state().core().reclaimer().deferred(std::move(object)));
}
void Team::collect() const { state().collect(); }

std::shared_ptr<void> Team::cache_get(const std::string& key) const {
  const auto& cache = state().cache();
  const auto found = cache.find(key);
  return found == cache.end() ? nullptr : found->second;
}
void Team::cache_put(const std::string& key, std::shared_ptr<void> object) const {
  state().cache().insert_or_assign(key, std::move(object));
}

}  // namespace tandem

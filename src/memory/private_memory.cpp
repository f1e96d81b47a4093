// SPDX-License-Identifier: Apache-2.0
#include "memory/private_memory.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <tuple>
#include <unistd.h>
#include <vector>

#include "base/format.hpp"
#include "team/names.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

constexpr const char* call = "trial of private memory";

/// A random number of this rank, and its address. Shows whether a peer reads the right process: pids are per container.
struct Secret {
  std::uint64_t value;
  const void* address;
};

Parcel parcel_of(const void* bytes, std::size_t count) {
  Parcel parcel;
  parcel.bytes.resize(count);
  if (count != 0) std::memcpy(parcel.bytes.data(), bytes, count);
  return parcel;
}

std::string try_to_read(const Team& team, const std::vector<Parcel>& announced) {
  for (int rank = 0; rank < team.size(); ++rank) {
    Secret theirs{};
    const Parcel& parcel = announced[static_cast<std::size_t>(rank)];
    if (parcel.bytes.size() == sizeof(theirs)) std::memcpy(&theirs, parcel.bytes.data(), sizeof(theirs));
    std::uint64_t found = 0;
    const PeerInfo& peer = team.peer(rank);
    std::string why = team.device().read_process(peer.pid, theirs.address, &found, sizeof(found));
    if (why.empty() && found != theirs.value) why = format("process {} is another one here", peer.pid);
    if (!why.empty()) return format("rank {} cannot read {}: {}", team.world_rank(team.rank()), to_string(peer), why);
  }
  return "";
}

/// The time of a read through the system (from this process) divided by that of a plain copy of the same size. Of each
/// the shortest of a few: another rank may get the core in between.
double measure_cost(Device& device) {
  constexpr std::size_t bytes = std::size_t{256} << 10;
  constexpr int tries = 5;
  const std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  const auto shortest = [](const auto& body) {
    auto best = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < tries; ++i) {
      const auto began = std::chrono::steady_clock::now();
      body();
      best = std::min(best, std::chrono::steady_clock::now() - began);
    }
    return std::max(std::chrono::duration<double>(best).count(), std::numeric_limits<double>::min());
  };
  const double read = shortest([&] { std::ignore = device.read_process(::getpid(), from.data(), to.data(), bytes); });
  return read / shortest([&] { device.upload(to.data(), from.data(), bytes); });
}

/// The result, equal on all ranks of a team.
struct Trial {
  std::string why_not;  // empty if all ranks can read each other's memory
  double cost = 0;
};

Trial try_all(const Team& team) {
  std::random_device random;
  std::uint64_t value = (std::uint64_t{random()} << 32U) | random();
  const Secret mine{.value = value, .address = &value};
  const std::vector<Parcel> announced = team.exchange(call, parcel_of(&mine, sizeof(mine)));
  const std::string why = or_abort(team, call, [&] { return try_to_read(team, announced); });
  Trial trial;
  for (const Parcel& verdict : team.exchange(call, parcel_of(why.data(), why.size()))) {
    if (verdict.bytes.empty()) continue;
    trial.why_not = {reinterpret_cast<const char*>(verdict.bytes.data()), verdict.bytes.size()};
    return trial;
  }
  static const double own_cost = or_abort(team, call, [&] { return measure_cost(team.device()); });
  for (const Parcel& parcel : team.exchange(call, parcel_of(&own_cost, sizeof(own_cost)))) {
    double cost = 0;
    if (parcel.bytes.size() == sizeof(cost)) std::memcpy(&cost, parcel.bytes.data(), sizeof(cost));
    trial.cost = std::max(trial.cost, cost);
  }
  return trial;
}

const Trial& trial_of(const Team& team) {
  return *team.cached<Trial>("trial of private memory",
                             [&](const Team&) { return std::make_shared<Trial>(try_all(team)); });
}

// A kind of device that cannot read private memory says so even for a read of 0 bytes, equally on all ranks.
std::string why_never(const Team& team) { return team.device().read_process(0, nullptr, nullptr, 0); }

}  // namespace

std::string why_no_loans(const Team& team) {
  std::string never = why_never(team);
  return never.empty() ? trial_of(team).why_not : never;
}

double loan_cost(const Team& team) { return why_never(team).empty() ? trial_of(team).cost : 0; }

}  // namespace tandem

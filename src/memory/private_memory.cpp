// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/private_memory.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/format.hpp"
#include "team/names.hpp"

namespace tandem {
namespace {

constexpr const char* call = "trial of private memory";

/// A number that this rank alone knows, and where it stands: process ids mean something else in another container.
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

std::string try_all(const Team& team) {
  std::random_device random;
  std::uint64_t value = (std::uint64_t{random()} << 32U) | random();
  const Secret mine{.value = value, .address = &value};
  const std::vector<Parcel> announced = team.exchange(call, parcel_of(&mine, sizeof(mine)));
  const std::string why = try_to_read(team, announced);
  for (const Parcel& verdict : team.exchange(call, parcel_of(why.data(), why.size()))) {
    if (verdict.bytes.empty()) continue;
    return {reinterpret_cast<const char*>(verdict.bytes.data()), verdict.bytes.size()};
  }
  return "";
}

}  // namespace

std::string why_no_loans(const Team& team) {
  // A kind of device that never reads private memory says so to a read of nothing, on all ranks alike.
  std::string never = team.device().read_process(0, nullptr, nullptr, 0);
  if (!never.empty()) return never;
  return *team.cached<std::string>("why no loans",
                                   [&](const Team&) { return std::make_shared<std::string>(try_all(team)); });
}

}  // namespace tandem

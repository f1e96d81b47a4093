// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/resident_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tandem/device/device.hpp"

namespace tandem {
namespace {

int agree(const Team& team) {
  const Hardware mine = team.device().hardware();
  Parcel parcel;
  parcel.bytes.resize(sizeof(mine));
  std::memcpy(parcel.bytes.data(), &mine, sizeof(mine));
  std::vector<Hardware> all;
  for (const Parcel& each : team.exchange("resident blocks", std::move(parcel))) {
    Hardware theirs;
    if (each.bytes.size() == sizeof(theirs)) std::memcpy(&theirs, each.bytes.data(), sizeof(theirs));
    all.push_back(theirs);
  }
  int fewest = mine.blocks_at_once;
  for (const Hardware& one : all) {
    const auto sharing = std::ranges::count(all, one.id, &Hardware::id);
    fewest = std::min(fewest, one.blocks_at_once / static_cast<int>(sharing));
  }
  return std::max(fewest, 1);
}

}  // namespace

int resident_blocks(const Team& team) {
  return *team.cached<int>("resident blocks", [](const Team& own) { return std::make_shared<int>(agree(own)); });
}

}  // namespace tandem

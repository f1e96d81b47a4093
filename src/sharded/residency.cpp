// SPDX-License-Identifier: Apache-2.0
#include "sharded/residency.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tandem {

Residency::Residency(std::vector<int> order, int buffers)
    : order_(std::move(order)), held_(static_cast<std::size_t>(buffers), none) {}

std::optional<int> Residency::buffer_of(int group) const noexcept {
  const auto at = std::ranges::find(held_, group);
  if (at == held_.end()) return std::nullopt;
  return static_cast<int>(std::distance(held_.begin(), at));
}

std::size_t Residency::distance(int buffer) const noexcept {
  const int group = held_[static_cast<std::size_t>(buffer)];
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (order_[(position_ + i) % order_.size()] == group) return i;
  }
  return order_.size();
}

// Of n buffers, the group of the next n uses that is placed last finds one whose group is in none of these uses: so no
// group that is about to be used gives way.
std::vector<Residency::Placement> Residency::place(bool around) {
  const std::size_t ahead = std::min(held_.size(), around ? order_.size() : order_.size() - position_);
  std::vector<Placement> placed;
  for (std::size_t i = 0; i < ahead; ++i) {
    const int group = order_[(position_ + i) % order_.size()];
    if (buffer_of(group)) continue;
    int latest = 0;
    for (int buffer = 1; buffer < static_cast<int>(held_.size()); ++buffer) {
      if (distance(buffer) > distance(latest)) latest = buffer;
    }
    held_[static_cast<std::size_t>(latest)] = group;
    placed.push_back({group, latest});
  }
  return placed;
}

void Residency::clear() noexcept {
  std::ranges::fill(held_, none);
  position_ = 0;
}

}  // namespace tandem

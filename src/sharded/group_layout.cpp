// SPDX-License-Identifier: Apache-2.0
#include "sharded/group_layout.hpp"

#include <algorithm>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "base/most_elements.hpp"

namespace tandem {
namespace {

std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

}  // namespace

GroupLayout::GroupLayout(const ParameterGroup& group, int ranks) {
  std::int64_t end = 0;
  for (const Parameter& parameter : group.parameters) {
    const std::int64_t count = parameter.sizes.numel();
    const std::int64_t begin = rounded_up(end, alignment);
    if (count > most_elements - begin) {
      throw InvalidArgument(format("parameter '{}' of group '{}', {}, begins at element {}; a group has at most {}",
                                   parameter.name, group.name, to_string(parameter.sizes), begin, most_elements));
    }
    if (begin > end) gaps_.push_back({end, begin - end});
    places_.push_back({begin, count});
    sizes_.push_back(parameter.sizes);
    end = begin + count;
  }
  shard_elements_ = rounded_up(shard_of(end, ranks, 0).count, alignment);
  elements_ = shard_elements_ * ranks;
  if (elements_ > end) gaps_.push_back({end, elements_ - end});
}

std::vector<ParameterPiece> GroupLayout::pieces(int rank) const {
  const std::int64_t shard_begin = shard_elements_ * rank;
  const std::int64_t shard_end = shard_begin + shard_elements_;
  std::vector<ParameterPiece> pieces;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Shard& place = places_[i];
    const std::int64_t begin = std::max(place.begin, shard_begin);
    const std::int64_t end = std::min(place.begin + place.count, shard_end);
    if (begin >= end) continue;
    pieces.push_back({static_cast<int>(i), {begin - place.begin, end - begin}, begin - shard_begin});
  }
  return pieces;
}

std::int64_t elements_of_largest(std::span<const GroupLayout> layouts) noexcept {
  std::int64_t most = 0;
  for (const GroupLayout& layout : layouts) most = std::max(most, layout.elements());
  return most;
}

std::int64_t shard_of_largest(std::span<const GroupLayout> layouts) noexcept {
  std::int64_t most = 0;
  for (const GroupLayout& layout : layouts) most = std::max(most, layout.shard_elements());
  return most;
}

}  // namespace tandem

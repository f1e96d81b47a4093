// SPDX-License-Identifier: Apache-2.0
#include "attention/merge_turns.hpp"

#include <algorithm>
#include <cstddef>

namespace tandem {

std::vector<std::vector<MergeTurn>> merge_turns(std::int64_t tokens, const std::vector<Shard>& parts) {
  std::vector<std::int64_t> borders{0, tokens};
  for (const Shard& part : parts) {
    borders.push_back(part.begin);
    borders.push_back(part.begin + part.count);
  }
  std::ranges::sort(borders);
  borders.erase(std::ranges::unique(borders).begin(), borders.end());

  std::vector<std::vector<MergeTurn>> turns(parts.size());
  for (std::size_t b = 0; b + 1 < borders.size(); ++b) {
    const Shard range{borders[b], borders[b + 1] - borders[b]};
    const auto has_range = [&](const Shard& part) {
      return part.begin <= range.begin && range.begin < part.begin + part.count;
    };
    const auto first = std::ranges::find_if(parts, has_range);
    const auto last = std::find_if(parts.rbegin(), parts.rend(), has_range);
    for (auto part = first; part != parts.end(); ++part) {
      if (!has_range(*part)) continue;
      const MergeTurn turn{range, part == first, part + 1 == last.base()};
      std::vector<MergeTurn>& mine = turns[static_cast<std::size_t>(part - parts.begin())];
      const bool continues = !mine.empty() && mine.back().first == turn.first && mine.back().last == turn.last &&
                             mine.back().range.begin + mine.back().range.count == range.begin;
      if (continues) {
        mine.back().range.count += range.count;
      } else {
        mine.push_back(turn);
      }
    }
  }
  return turns;
}

}  // namespace tandem

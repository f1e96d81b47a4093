// SPDX-License-Identifier: Apache-2.0
#include "collective/all_to_all/counts.hpp"

#include <algorithm>
#include <iterator>

#include "base/format.hpp"

namespace tandem {

void Counts::assign(std::int64_t ranks, std::int64_t count) {
  ranks_ = static_cast<std::size_t>(ranks);
  counts_.assign(ranks_ * ranks_, count);
  place();
}

void Counts::assign(std::int64_t ranks, std::span<const std::int64_t> counts) {
  ranks_ = static_cast<std::size_t>(ranks);
  counts_.assign(counts.begin(), counts.end());
  place();
}

void Counts::place() {
  sent_before_.assign(counts_.size(), 0);
  got_before_.assign(counts_.size(), 0);
  for (std::size_t from = 0; from < ranks_; ++from) {
    for (std::size_t to = 0; to < ranks_; ++to) {
      const std::size_t at = from * ranks_ + to;
      if (to > 0) sent_before_[at] = sent_before_[at - 1] + counts_[at - 1];
      if (from > 0) got_before_[at] = got_before_[at - ranks_] + counts_[at - ranks_];
    }
  }
}

std::int64_t Counts::sent(int rank) const noexcept {
  const int last = static_cast<int>(ranks_) - 1;
  return place_in_input(rank, last) + count(rank, last);
}

std::int64_t Counts::got(int rank) const noexcept {
  const int last = static_cast<int>(ranks_) - 1;
  return place_in_out(last, rank) + count(last, rank);
}

std::int64_t Counts::longest() const noexcept { return *std::ranges::max_element(counts_); }

std::string Counts::in_words() const {
  if (std::ranges::count(counts_, counts_.front()) == std::ssize(counts_)) {
    return format("{} elements a pair of ranks", counts_.front());
  }
  std::string rows;
  std::uint64_t hash = 0;
  for (std::size_t from = 0; from < ranks_; ++from) {
    std::string row;
    for (const std::int64_t count : std::span(counts_).subspan(from * ranks_, ranks_)) {
      row += format("{}{}", row.empty() ? "" : ", ", count);
      hash = hash * 0x100000001b3 + static_cast<std::uint64_t>(count);
    }
    rows += format("{}[{}]", rows.empty() ? "" : ", ", row);
  }
  // For more ranks the matrix is too long for an error message; hashes of different matrices almost always differ.
  constexpr std::size_t most_ranks_listed = 8;
  return ranks_ <= most_ranks_listed ? format("counts [{}]", rows)
                                     : format("counts of up to {} elements, with hash {:x}", longest(), hash);
}

bool Counts::divides_by(std::int64_t unit) const noexcept {
  return std::ranges::all_of(counts_, [unit](std::int64_t count) { return count % unit == 0; });
}

}  // namespace tandem

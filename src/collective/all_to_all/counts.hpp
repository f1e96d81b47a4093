// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem {

/// How much each rank sends to each other one in one run, and the offsets of the parts.
class Counts {
 public:
  /// Equal parts of `count` elements.
  void assign(std::int64_t ranks, std::int64_t count);
  void assign(std::int64_t ranks, std::span<const std::int64_t> counts);

  [[nodiscard]] std::int64_t count(int from, int to) const noexcept { return counts_[index(from, to)]; }
  /// Offsets in elements: of the part for `to` in `from`'s input, and of the part of `from` in `to`'s output.
  [[nodiscard]] std::int64_t place_in_input(int from, int to) const noexcept { return sent_before_[index(from, to)]; }
  [[nodiscard]] std::int64_t place_in_out(int from, int to) const noexcept { return got_before_[index(from, to)]; }
  [[nodiscard]] std::int64_t sent(int rank) const noexcept;
  [[nodiscard]] std::int64_t got(int rank) const noexcept;
  [[nodiscard]] std::int64_t longest() const noexcept;
  [[nodiscard]] std::string in_words() const;
  /// Whether the size of each part is a multiple of `unit` elements.
  [[nodiscard]] bool divides_by(std::int64_t unit) const noexcept;

 private:
  [[nodiscard]] std::size_t index(int from, int to) const noexcept {
    return static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to);
  }
  void place();
  std::size_t ranks_ = 0;
  std::vector<std::int64_t> counts_;
  std::vector<std::int64_t> sent_before_;
  std::vector<std::int64_t> got_before_;
};

}  // namespace tandem

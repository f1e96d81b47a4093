// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tandem/base/export.hpp"

namespace tandem {

/// Which groups are gathered in which buffers, as a step goes through its order of uses. Only bookkeeping, equal on all
/// ranks: what has to be gathered next, and into which buffer, follows from the order alone.
class TANDEM_API Residency {
 public:
  struct Placement {
    int group = 0;
    int buffer = 0;

    friend bool operator==(const Placement&, const Placement&) = default;
  };

  /// `order` has a use, and there is a buffer.
  Residency(std::vector<int> order, int buffers);

  /// The next use in the order, and its group.
  [[nodiscard]] std::size_t position() const noexcept { return position_; }
  [[nodiscard]] int next() const noexcept { return order_[position_]; }
  [[nodiscard]] std::size_t uses() const noexcept { return order_.size(); }
  /// The buffer that has this group, or will have it once what `place` returned is gathered.
  [[nodiscard]] std::optional<int> buffer_of(int group) const noexcept;

  /// The groups of the next uses, as many as there are buffers, that no buffer has: from now on these do. Call it only
  /// while no group is in use. `around`: the first use follows the last one; otherwise there is none behind it. Groups
  /// that are needed again latest give way.
  [[nodiscard]] std::vector<Placement> place(bool around);
  /// The next use has ended.
  void advance() noexcept { position_ = (position_ + 1) % order_.size(); }
  /// Back to the first use, with empty buffers.
  void clear() noexcept;

 private:
  static constexpr int none = -1;

  /// How many uses from now on until that of the buffer's group; all of them if it has none.
  [[nodiscard]] std::size_t distance(int buffer) const noexcept;

  std::vector<int> order_;
  std::vector<int> held_;  ///< the group that each buffer has
  std::size_t position_ = 0;
};

}  // namespace tandem

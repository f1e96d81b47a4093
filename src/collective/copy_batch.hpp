// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/copy.hpp"

#include "collective/rows.hpp"

namespace tandem {

/// Copies that a run collects, to submit them as one device operation.
class TANDEM_API CopyBatch {
 public:
  /// Adds a copy; one that continues the last one is merged into it. No-op for 0 bytes or if `to` is `from`. `part_of`
  /// as in Copy.
  void add(void* to, const void* from, std::size_t bytes, Path path, std::size_t part_of = 0);
  /// Adds copies between possibly strided rows: one for each stretch in which the rows of both step alike.
  void add(Rows to, Rows from, std::size_t bytes, Path path, std::size_t part_of = 0);

  [[nodiscard]] bool empty() const noexcept { return copies_.empty(); }
  [[nodiscard]] std::span<const Copy> copies() const noexcept { return copies_; }
  void clear() noexcept { copies_.clear(); }

 private:
  std::vector<Copy> copies_;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"

namespace tandem {

/// A place in a tensor, by bytes of its row-major order: in memory that is dense, or in rows of the first dimension
/// that lie apart.
class TANDEM_API Rows {
 public:
  /// Dense. Of what is only read, nothing is written.
  Rows(const void* begin) noexcept : begin_(static_cast<std::byte*>(const_cast<void*>(begin))) {}
  /// The first element of a view that `fits`.
  explicit Rows(const TensorView& view);
  /// Whether each row of a view is dense, and none begins before the one in front of it ends.
  [[nodiscard]] static bool fits(const TensorView& view) noexcept;

  [[nodiscard]] Rows operator+(std::size_t bytes) const noexcept {
    Rows moved = *this;
    moved.at_ += bytes;
    return moved;
  }
  [[nodiscard]] bool is_dense() const noexcept { return row_ == SIZE_MAX; }
  [[nodiscard]] std::byte* address() const noexcept {
    return is_dense() ? begin_ + at_ : begin_ + at_ / row_ * pitch_ + at_ % row_;
  }
  /// Bytes from here to the end of the row.
  [[nodiscard]] std::size_t left_in_row() const noexcept { return row_ - at_ % row_; }
  /// Whether from here on every `row` bytes lie together, so far from the last ones as `pitch` says.
  [[nodiscard]] bool steps_by(std::size_t row) const noexcept { return is_dense() || (row == row_ && at_ % row_ == 0); }
  [[nodiscard]] std::size_t pitch(std::size_t row) const noexcept { return is_dense() ? row : pitch_; }
  /// Whether the next `bytes` lie as those of `other` do, seen from where each of the two is.
  [[nodiscard]] bool go_on_like(const Rows& other, std::size_t bytes) const noexcept {
    if (bytes <= std::min(left_in_row(), other.left_in_row())) return true;
    return row_ == other.row_ && pitch_ == other.pitch_ && left_in_row() == other.left_in_row();
  }

 private:
  std::byte* begin_;
  std::size_t at_ = 0;
  std::size_t row_ = SIZE_MAX;  // bytes of one, which is longer than any tensor where all is dense
  std::size_t pitch_ = 0;       // from one row's begin to the next one's
};

}  // namespace tandem

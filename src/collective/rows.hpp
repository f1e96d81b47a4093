// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"

namespace tandem {

/// A position in a tensor, as a byte offset in its row-major order. The tensor is dense, or strided in its first
/// dimension only (each row dense).
class TANDEM_API Rows {
 public:
  /// Dense memory. The cast only serves sources: memory that is only read is never written.
  Rows(const void* begin) noexcept : begin_(static_cast<std::byte*>(const_cast<void*>(begin))) {}
  /// The first element of a view that `fits` (not checked).
  explicit Rows(const TensorView& view);
  /// Whether each row of the view is dense and begins at or after the end of the previous one.
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
  /// Whether, from here on, consecutive runs of `row` bytes are each contiguous, `pitch(row)` bytes apart.
  [[nodiscard]] bool steps_by(std::size_t row) const noexcept { return is_dense() || (row == row_ && at_ % row_ == 0); }
  [[nodiscard]] std::size_t pitch(std::size_t row) const noexcept { return is_dense() ? row : pitch_; }
  /// Whether the next `bytes` bytes have the same layout here and in `other`.
  [[nodiscard]] bool go_on_like(const Rows& other, std::size_t bytes) const noexcept {
    if (bytes <= std::min(left_in_row(), other.left_in_row())) return true;
    return row_ == other.row_ && pitch_ == other.pitch_ && left_in_row() == other.left_in_row();
  }

 private:
  std::byte* begin_;
  std::size_t at_ = 0;
  std::size_t row_ = SIZE_MAX;  // bytes of a row; SIZE_MAX: dense
  std::size_t pitch_ = 0;       // bytes from the start of one row to that of the next
};

}  // namespace tandem

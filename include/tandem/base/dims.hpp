// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"

namespace tandem {

/// Up to eight 64-bit extents (or strides) by value. No dimensions means a scalar: one element.
class TANDEM_API Dims {
 public:
  static constexpr std::size_t max_rank = 8;

  Dims() = default;
  /// Throws InvalidArgument for more than `max_rank` values.
  Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values) : size_(values.size()) {
    if (size_ > max_rank) refuse(size_);
    for (std::size_t i = 0; i < size_; ++i) values_[i] = values[i];
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// `i` must be below `size`; not checked.
  [[nodiscard]] std::int64_t operator[](std::size_t i) const noexcept { return values_[i]; }
  [[nodiscard]] std::int64_t& operator[](std::size_t i) noexcept { return values_[i]; }
  [[nodiscard]] const std::int64_t* begin() const noexcept { return values_.data(); }
  [[nodiscard]] const std::int64_t* end() const noexcept { return values_.data() + size_; }

  /// The product of all extents; 1 for none. Throws InvalidArgument for a negative extent or a product above 2^63 - 1.
  [[nodiscard]] std::int64_t numel() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : *this) {
      if (extent <= 0 || __builtin_mul_overflow(product, extent, &product)) return unusual_numel();
    }
    return product;
  }

  /// The row-major strides, in elements, of a dense tensor of these sizes.
  [[nodiscard]] Dims dense_strides() const noexcept {
    Dims strides;
    strides.size_ = size_;
    std::uint64_t stride = 1;  // may wrap if an extent is 0: then there are no elements
    for (std::size_t i = size_; i-- > 0;) {
      strides.values_[i] = static_cast<std::int64_t>(stride);
      stride *= values_[i] > 1 ? static_cast<std::uint64_t>(values_[i]) : 1;
    }
    return strides;
  }

  /// A copy with `extent` as an additional first one. Throws InvalidArgument if there are `max_rank` already.
  [[nodiscard]] Dims prepended(std::int64_t extent) const;

  [[nodiscard]] bool operator==(const Dims& other) const noexcept;

 private:
  [[noreturn]] static void refuse(std::size_t dimensions);
  /// The slow path of `numel`: an extent is 0 or negative, or the product overflows.
  [[nodiscard]] std::int64_t unusual_numel() const;

  std::array<std::int64_t, max_rank> values_{};
  std::size_t size_ = 0;
};
static_assert(Plain<Dims>);

/// "[4, 8]"
[[nodiscard]] TANDEM_API std::string to_string(const Dims& dims);

}  // namespace tandem

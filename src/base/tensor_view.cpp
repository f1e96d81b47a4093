// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/tensor_view.hpp"

#include <algorithm>
#include <limits>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem {

TensorView::TensorView(void* data, const Dims& sizes, const Dims& strides, DType dtype, DeviceId device)
    : data_(data), sizes_(sizes), strides_(strides), dtype_(dtype), device_(device) {
  if (sizes.size() != strides.size()) {
    throw InvalidArgument(format("sizes {} and strides {} differ in length", to_string(sizes), to_string(strides)));
  }
  if (numel() != 0 && data == nullptr) refuse_null();  // numel() also refuses negative extents
}

void TensorView::refuse_null() const {
  throw InvalidArgument(format("a null pointer was given for a tensor of sizes {}", to_string(sizes_)));
}

void TensorView::expect_bytes_below_limit(std::int64_t elements) const {
  constexpr auto limit = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  if (static_cast<std::size_t>(elements) <= limit / std::max<std::size_t>(size_of(dtype_), 1)) return;
  throw InvalidArgument(format("a tensor of sizes {} has 2^63 or more bytes of {}", to_string(sizes_), name(dtype_)));
}

void TensorView::check(std::size_t dim) const {
  if (dim < sizes_.size()) return;
  throw InvalidArgument(format("dimension {} was asked of a tensor of sizes {}; it has {}, counted from 0", dim,
                               to_string(sizes_), sizes_.size()));
}

std::int64_t TensorView::size(std::size_t dim) const {
  check(dim);
  return sizes_[dim];
}

std::int64_t TensorView::stride(std::size_t dim) const {
  check(dim);
  return strides_[dim];
}

TensorView TensorView::narrow(std::size_t dim, std::int64_t start, std::int64_t length) const {
  if (dim >= this->dim() || start < 0 || length < 0 || start > sizes_[dim] - length) {
    throw InvalidArgument(
        format("elements [{}, {} + {}) of dimension {} were asked of a tensor of sizes {}; allowed: those that it has",
               start, start, length, dim, to_string(sizes_)));
  }
  Dims sizes = sizes_;
  sizes[dim] = length;
  auto* bytes = static_cast<std::byte*>(data_);
  if (numel() != 0) bytes += start * strides_[dim] * static_cast<std::int64_t>(size_of(dtype_));
  return {bytes, sizes, strides_, dtype_, device_};
}

TensorView TensorView::reshaped(const Dims& sizes) const {
  if (!is_dense() || sizes.numel() != numel()) {
    throw InvalidArgument(
        format("a {} tensor of sizes {} cannot be seen as {}; allowed: a dense one, as one of as many elements",
               is_dense() ? "dense" : "strided", to_string(sizes_), to_string(sizes)));
  }
  return {data_, sizes, dtype_, device_};
}

std::string to_string(const TensorView& view) {
  return format("{}{} on {}", name(view.dtype()), to_string(view.sizes()), to_string(view.device()));
}

}  // namespace tandem

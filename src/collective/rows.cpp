// SPDX-License-Identifier: Apache-2.0
#include "collective/rows.hpp"

namespace tandem {
namespace {

std::int64_t elements_of_row(const TensorView& view) noexcept {
  std::int64_t elements = 1;
  for (std::size_t i = 1; i < view.dim(); ++i) elements *= view.sizes()[i];
  return elements;
}

}  // namespace

Rows::Rows(const TensorView& view) : Rows(view.data()) {
  if (view.is_dense()) return;
  const std::size_t element = size_of(view.dtype());
  row_ = static_cast<std::size_t>(elements_of_row(view)) * element;
  pitch_ = static_cast<std::size_t>(view.strides()[0]) * element;
}

bool Rows::fits(const TensorView& view) noexcept {
  if (view.is_dense()) return true;
  std::int64_t expected = 1;
  for (std::size_t i = view.dim(); i-- > 1;) {
    if (view.sizes()[i] != 1 && view.strides()[i] != expected) return false;
    expected *= view.sizes()[i];
  }
  // Offsets in bytes of all rows, and a little more, are below 2^63.
  std::int64_t last = 0;
  const auto bytes = static_cast<std::int64_t>(size_of(view.dtype()));
  const bool counts =
      !__builtin_mul_overflow(view.sizes()[0], view.strides()[0], &last) && !__builtin_mul_overflow(last, bytes, &last);
  return counts && view.strides()[0] >= expected;
}

}  // namespace tandem

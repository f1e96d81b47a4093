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
  return view.strides()[0] >= expected;
}

}  // namespace tandem

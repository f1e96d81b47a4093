// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/dims.hpp"

#include <algorithm>
#include <limits>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem {

void Dims::refuse(std::size_t dimensions) {
  throw InvalidArgument(
      format("a tensor of {} dimensions was asked for; at most {} are allowed", dimensions, max_rank));
}

std::int64_t Dims::unusual_numel() const {
  std::int64_t product = 1;
  bool empty = false;
  bool overflow = false;
  for (const std::int64_t extent : *this) {
    if (extent < 0) throw InvalidArgument(format("sizes {} have a negative extent", to_string(*this)));
    if (extent == 0) {
      empty = true;
    } else if (product > std::numeric_limits<std::int64_t>::max() / extent) {
      overflow = true;
    } else {
      product *= extent;
    }
  }
  if (empty) return 0;
  if (overflow) throw InvalidArgument(format("sizes {} hold more than 2^63 - 1 elements", to_string(*this)));
  return product;
}

Dims Dims::prepended(std::int64_t extent) const {
  std::array<std::int64_t, max_rank + 1> values{extent};
  std::copy(begin(), end(), values.begin() + 1);
  return Dims(std::span<const std::int64_t>(values.data(), size_ + 1));
}

bool Dims::operator==(const Dims& other) const noexcept {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

}  // namespace tandem

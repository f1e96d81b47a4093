// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/buffer.hpp"

#include <cstdint>

#include "base/checked.hpp"
#include "base/dtype_check.hpp"
#include "base/format.hpp"

namespace tandem {

TensorView Buffer::view(const Dims& sizes, DType dtype, std::size_t offset_bytes) const {
  if (device_ == nullptr) {
    throw InvalidArgument("a view was asked for of a buffer that was never made, or that was moved from");
  }
  const std::size_t element = size_of(known_dtype(dtype));
  const std::size_t bytes = checked_mul(static_cast<std::size_t>(sizes.numel()), element);
  if (offset_bytes > bytes_ || bytes > bytes_ - offset_bytes) {
    throw InvalidArgument(
        format("{}{} at byte {} takes {} bytes and was asked for of a buffer on {}; allowed: what fits in its {} bytes",
               name(dtype), to_string(sizes), offset_bytes, bytes, to_string(device_->id()), bytes_));
  }
  std::byte* const begin = data_as<std::byte>() + offset_bytes;
  if (reinterpret_cast<std::uintptr_t>(begin) % element != 0) {
    throw InvalidArgument(
        format("{}{} was asked for at byte {} of a buffer on {}; allowed: multiples of the dtype's {} bytes",
               name(dtype), to_string(sizes), offset_bytes, to_string(device_->id()), element));
  }
  return {begin, sizes, dtype, device_->id()};
}

}  // namespace tandem

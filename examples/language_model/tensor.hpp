// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"

namespace tandem::language_model {

/// A dense tensor that owns device memory. Wait for the work that uses it before destroying it.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const std::shared_ptr<Device>& device, const Dims& sizes, DType dtype)
      : buffer_(device, static_cast<std::size_t>(sizes.numel()) * size_of(dtype)), view_(buffer_.view(sizes, dtype)) {}

  [[nodiscard]] const TensorView& view() const noexcept { return view_; }
  /// Its first `count` rows.
  [[nodiscard]] TensorView rows(std::int64_t count) const { return view_.narrow(0, 0, count); }

 private:
  Buffer buffer_;
  TensorView view_;
};

}  // namespace tandem::language_model

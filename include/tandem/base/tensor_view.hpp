// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tandem/base/concepts.hpp"
#include "tandem/base/device_id.hpp"
#include "tandem/base/dims.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/export.hpp"

namespace tandem {

/// A non-owning view of memory as a tensor. Cheap to copy. Strides are in elements.
///
/// The constructors' `device` is the host unless given: for memory of a GPU pass its id (Device::id), or the view is
/// taken for one of host memory, and refused. Buffer::view passes it.
class TANDEM_API TensorView {
 public:
  TensorView() = default;
  /// A dense row-major tensor at `data`. Throws InvalidArgument for a negative extent, more than 2^63 - 1 elements, and
  /// a null `data` of a tensor that has elements.
  TensorView(void* data, const Dims& sizes, DType dtype, DeviceId device = {})
      : data_(data), sizes_(sizes), strides_(sizes.dense_strides()), dtype_(dtype), device_(device) {
    if (numel() != 0 && data == nullptr) refuse_null();
  }
  /// A strided tensor at `data`. Throws InvalidArgument likewise, and unless there are as many strides as sizes.
  TensorView(void* data, const Dims& sizes, const Dims& strides, DType dtype, DeviceId device = {});

  [[nodiscard]] void* data() const noexcept { return data_; }
  template <typename T> [[nodiscard]] T* data_as() const noexcept { return static_cast<T*>(data_); }
  [[nodiscard]] const Dims& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const Dims& strides() const noexcept { return strides_; }
  /// Extent, or stride, of dimension `dim`. Throws InvalidArgument for a dimension that the tensor does not have.
  [[nodiscard]] std::int64_t size(std::size_t dim) const;
  [[nodiscard]] std::int64_t stride(std::size_t dim) const;
  [[nodiscard]] std::size_t dim() const noexcept { return sizes_.size(); }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] DeviceId device() const noexcept { return device_; }

  [[nodiscard]] std::int64_t numel() const { return sizes_.numel(); }
  /// Bytes of the elements, without the gaps that strides leave. Throws InvalidArgument if they are 2^63 or more.
  [[nodiscard]] std::size_t bytes() const {
    const std::int64_t elements = numel();
    if (elements >> 60 != 0) expect_bytes_below_limit(elements);
    return static_cast<std::size_t>(elements) * size_of(dtype_);
  }
  /// True if the elements are contiguous in row-major order; always true for an empty tensor.
  [[nodiscard]] bool is_dense() const {
    std::uint64_t expected = 1;  // may wrap if an extent is 0
    for (std::size_t i = dim(); i-- > 0;) {
      if (sizes_[i] == 1) continue;
      if (static_cast<std::uint64_t>(strides_[i]) != expected) return numel() == 0;
      expected *= static_cast<std::uint64_t>(sizes_[i]);
    }
    return true;
  }

  /// A view of elements [start, start + length) of dimension `dim`. Throws InvalidArgument if they are out of range.
  [[nodiscard]] TensorView narrow(std::size_t dim, std::int64_t start, std::int64_t length) const;
  /// A view of the elements with other sizes. Throws InvalidArgument if not dense, or if the element count differs.
  [[nodiscard]] TensorView reshaped(const Dims& sizes) const;

 private:
  [[noreturn]] void refuse_null() const;
  void expect_bytes_below_limit(std::int64_t elements) const;
  void check(std::size_t dim) const;

  void* data_ = nullptr;
  Dims sizes_{0};
  Dims strides_{1};
  DType dtype_ = DType::f32;
  DeviceId device_{};
};
static_assert(Plain<TensorView>);

/// "bf16[4, 8] on cuda:0"
[[nodiscard]] TANDEM_API std::string to_string(const TensorView& view);

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "tandem/base/concepts.hpp"
#include "tandem/base/dims.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/error.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

/// Owns device memory that peers cannot access. Keeps the device alive. Freed by Device::deallocate: not
/// before queued work that may use it has run.
class Buffer {
 public:
  Buffer() = default;
  /// Throws InvalidArgument for no device, and what Device::allocate throws.
  Buffer(std::shared_ptr<Device> device, std::size_t bytes)
      : device_(std::move(device)), data_(bytes == 0 ? nullptr : known(device_).allocate(bytes)), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept
      : device_(std::move(other.device_)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));  // and then frees what this had
    std::swap(device_, taken.device_);
    std::swap(data_, taken.data_);
    std::swap(bytes_, taken.bytes_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) device_->deallocate(data_);
  }

  [[nodiscard]] void* data() const noexcept { return data_; }
  template <typename T> [[nodiscard]] T* data_as() const noexcept { return static_cast<T*>(data_); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The dense row-major tensor that begins `offset_bytes` into the memory, on the buffer's own device. Valid as long
  /// as the memory. Throws InvalidArgument for sizes that do not fit, an address that is no multiple of the dtype's
  /// size, an unknown dtype, and a buffer without a device (default-constructed, or moved from).
  [[nodiscard]] TANDEM_API TensorView view(const Dims& sizes, DType dtype, std::size_t offset_bytes = 0) const;

 private:
  [[nodiscard]] static Device& known(const std::shared_ptr<Device>& device) {
    if (device == nullptr) throw InvalidArgument("no device was given for a buffer");
    return *device;
  }

  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};
static_assert(Owner<Buffer>);

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace tandem::cuda {

/// cudaMalloc in the current context. Throws OutOfMemory with the requested and the free bytes.
[[nodiscard]] void* allocate_device_memory(std::size_t bytes);
/// cudaFree, which waits for all work on the device, including kernels that wait for a peer: see Device::deallocate.
void free_device_memory(void* memory) noexcept;

/// Owns memory of the current context's device; must be destroyed with that context current.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes) : data_(bytes == 0 ? nullptr : allocate_device_memory(bytes)) {}
  DeviceMemory(DeviceMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) free_device_memory(data_);
  }

  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

static_assert(!std::is_copy_constructible_v<DeviceMemory> && std::is_nothrow_move_constructible_v<DeviceMemory>);

}  // namespace tandem::cuda

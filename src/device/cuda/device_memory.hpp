// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace tandem::cuda {

/// cudaMalloc on the current context. Throws OutOfMemory that says how much was asked for and how much there was.
[[nodiscard]] void* allocate_device_memory(std::size_t bytes);
/// cudaFree, which waits for the device: not for memory that a pending wait may still need.
void free_device_memory(void* memory) noexcept;

/// Owns memory of the current context's device; to be destroyed with that context current.
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <utility>

#include "tandem/device/device.hpp"

namespace tandem::testing {

/// `count` T in zeroed pages of host memory, which the device can read and write, too.
template <typename T> class Registered {
 public:
  explicit Registered(std::shared_ptr<Device> device, std::size_t count = 1)
      : device_(std::move(device)), bytes_((count * sizeof(T) + page - 1) / page * page) {
    void* const pages = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(pages);
    device_->register_memory(data_, bytes_);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() {
    device_->unregister_memory(data_);
    ::munmap(data_, bytes_);
  }

  [[nodiscard]] T* data() const noexcept { return data_; }

 private:
  static constexpr std::size_t page = 4096;

  std::shared_ptr<Device> device_;
  std::size_t bytes_;
  T* data_ = nullptr;
};

}  // namespace tandem::testing

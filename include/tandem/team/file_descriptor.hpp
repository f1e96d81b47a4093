// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"

namespace tandem {

/// Owns a file descriptor.
class TANDEM_API FileDescriptor {
 public:
  FileDescriptor() = default;
  [[nodiscard]] static FileDescriptor from_native_handle(int fd) noexcept { return FileDescriptor(fd); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  int fd_ = -1;
};
static_assert(Owner<FileDescriptor>);

}  // namespace tandem

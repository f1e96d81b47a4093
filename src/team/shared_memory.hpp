// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "tandem/team/file_descriptor.hpp"

namespace tandem {

/// Memory that processes share, as this one has mapped it: a memfd. It has no name to leave behind; peers are sent the
/// descriptor. From 2 MiB on it asks for huge pages, where the system gives them to who asks.
class SharedMemory {
 public:
  enum class Access : unsigned char { read, write };

  /// New memory of `bytes`, which are whole pages: zeroed, taken from the machine now, and of a size that nobody can
  /// change. Throws OutOfMemory.
  explicit SharedMemory(std::size_t bytes);
  /// The `bytes` of a peer's memory; the descriptor is needed no longer. Throws OutOfMemory.
  SharedMemory(const FileDescriptor& fd, std::size_t bytes, Access access);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Of memory that was made here, until it is taken; else an empty one.
  [[nodiscard]] const FileDescriptor& descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] FileDescriptor take_descriptor() noexcept;

 private:
  SharedMemory(FileDescriptor fd, std::size_t bytes);

  FileDescriptor descriptor_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace tandem

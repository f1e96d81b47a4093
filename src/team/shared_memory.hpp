// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tandem/team/file_descriptor.hpp"

namespace tandem {

/// Memory shared between processes, as mapped by this one: a memfd. It has no name that could be left behind; its
/// descriptor is sent to peers. From 2 MiB on, huge pages are requested by madvise.
class SharedMemory {
 public:
  enum class Access : std::uint8_t { read, write };

  /// Allocates `bytes`, a multiple of the page size: zeroed, with all pages allocated now, and sealed against changes
  /// of its size. Pages are allocated in blocks: `next_block` is called before each with the bytes that are still to be
  /// allocated, and says of how many at most the block is; what it throws ends the allocation. Throws OutOfMemory, or
  /// DeviceError if the system does not permit it.
  using NextBlock = std::function<std::size_t(std::size_t left)>;
  explicit SharedMemory(std::size_t bytes, const NextBlock& next_block = {});
  /// Maps `bytes` of a peer's memory; the descriptor may be closed afterwards. Throws OutOfMemory.
  SharedMemory(const FileDescriptor& fd, std::size_t bytes, Access access);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool holds(const std::byte* data, std::size_t bytes) const noexcept {
    return data >= data_ && bytes <= bytes_ && static_cast<std::size_t>(data - data_) <= bytes_ - bytes;
  }
  /// The descriptor of memory allocated here, until it is taken; otherwise empty.
  [[nodiscard]] const FileDescriptor& descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] FileDescriptor take_descriptor() noexcept;

 private:
  SharedMemory(FileDescriptor fd, std::size_t bytes);

  FileDescriptor descriptor_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "tandem/team/file_descriptor.hpp"

#include <unistd.h>
#include <utility>

namespace tandem {

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace tandem

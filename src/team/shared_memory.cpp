// SPDX-License-Identifier: Apache-2.0
#include "team/shared_memory.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem {

FileDescriptor create_shared_memory(std::size_t bytes) {
  const auto refuse = [&](const char* call) {
    return OutOfMemory(
        format("{} bytes of shared host memory were asked for; {} failed: {}", bytes, call, std::strerror(errno)));
  };
  FileDescriptor fd = FileDescriptor::from_native_handle(::memfd_create("tandem", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw refuse("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) throw refuse("ftruncate");
  // Pages are taken now: a machine that is full says so here, and not as SIGBUS at some later write.
  if (::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) throw refuse("fallocate");
  // Nobody can shrink it under a peer's feet.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) throw refuse("sealing");
  return fd;
}

}  // namespace tandem

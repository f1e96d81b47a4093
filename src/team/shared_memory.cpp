// SPDX-License-Identifier: Apache-2.0
#include "team/shared_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/descriptor_limit.hpp"

namespace tandem {
namespace {

/// fallocate for all of a file; false with its errno. Any signal interrupts a call and undoes what it has done, and a
/// profiler's come all the time: steps are so small that most get through, and cost no more than one for all.
bool take_pages(int fd, std::size_t bytes) {
  constexpr std::size_t largest_step = 64 * 1024;
  constexpr std::size_t smallest_step = 4 * 1024;
  std::size_t step = largest_step;
  for (std::size_t taken = 0; taken < bytes;) {
    const std::size_t size = std::min(step, bytes - taken);
    if (::fallocate(fd, 0, static_cast<off_t>(taken), static_cast<off_t>(size)) == 0) {
      taken += size;
      step = largest_step;
    } else if (errno == EINTR) {
      step = std::max(step / 2, smallest_step);
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

FileDescriptor create_shared_memory(std::size_t bytes) {
  const auto refuse = [&](const char* call) {
    const int error = errno;
    return OutOfMemory(format("{} bytes of shared host memory were asked for; {} failed: {}{}{}", bytes, call,
                              std::strerror(error), error == EMFILE ? "; " : "",
                              error == EMFILE ? describe_descriptor_limit() : ""));
  };
  FileDescriptor fd = FileDescriptor::from_native_handle(::memfd_create("tandem", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw refuse("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) throw refuse("ftruncate");
  // Pages are taken now: a machine that is full says so here, and not as SIGBUS at some later write.
  if (!take_pages(fd.get(), bytes)) throw refuse("fallocate");
  // Nobody can shrink it under a peer's feet.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) throw refuse("sealing");
  return fd;
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "team/shared_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/descriptor_limit.hpp"

namespace tandem {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

// MFD_NOEXEC_SEAL, which some hosts require for memfds (Linux 6.3 and later); older headers do not define it.
constexpr unsigned never_executed = 0x8;

[[noreturn]] void refuse(std::size_t bytes, const char* call) {
  const int error = errno;
  std::string why =
      format("{} bytes of shared host memory were asked for; {} failed: {}", bytes, call, std::strerror(error));
  if (error == EMFILE) why += "; " + describe_descriptor_limit();
  if (error == EFBIG) why += "; the size of files is limited (ulimit -f)";
  if (error == EACCES || error == EPERM || error == ENOSYS) throw DeviceError(why);
  throw OutOfMemory(why);
}

/// While it exists, a file that becomes larger than the process's limit is an error (EFBIG), and no signal that ends
/// the process.
class NoSignalForLargeFiles {
 public:
  NoSignalForLargeFiles() noexcept {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  NoSignalForLargeFiles(const NoSignalForLargeFiles&) = delete;
  NoSignalForLargeFiles& operator=(const NoSignalForLargeFiles&) = delete;
  ~NoSignalForLargeFiles() {
    const int error = errno;
    if (!::sigismember(&before_, SIGXFSZ)) {
      const timespec at_once{};
      while (::sigtimedwait(&signal_, nullptr, &at_once) == SIGXFSZ) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

 private:
  ::sigset_t signal_{};
  ::sigset_t before_{};
};

FileDescriptor create(std::size_t bytes) {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  FileDescriptor fd = FileDescriptor::from_native_handle(::memfd_create("tandem", flags | never_executed));
  if (!fd && errno == EINVAL) fd = FileDescriptor::from_native_handle(::memfd_create("tandem", flags));
  if (!fd) refuse(bytes, "memfd_create");
  const NoSignalForLargeFiles no_signal;
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) refuse(bytes, "ftruncate");
  return fd;
}

std::byte* map(const FileDescriptor& fd, std::size_t bytes, int protection) {
  void* const address = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) {
    throw OutOfMemory(format("mapping {} bytes of shared memory failed: {}", bytes, std::strerror(errno)));
  }
  if (bytes >= huge_page) ::madvise(address, bytes, MADV_HUGEPAGE);  // a hint: no effect where the system has none
  return static_cast<std::byte*>(address);
}

/// fallocate for a part of a file; false, with its errno, if it fails. Any signal interrupts a call and undoes its
/// work, and a profiler sends many: the steps are so small that most complete, yet they cost no more than a single
/// call.
bool allocate_in_steps(int fd, std::size_t begin, std::size_t bytes) {
  constexpr std::size_t largest_step = 64 * 1024;
  constexpr std::size_t smallest_step = 4 * 1024;
  std::size_t step = largest_step;
  for (std::size_t taken = 0; taken < bytes;) {
    const std::size_t size = std::min(step, bytes - taken);
    if (::fallocate(fd, 0, static_cast<off_t>(begin + taken), static_cast<off_t>(size)) == 0) {
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

/// Whether only those mappings of shared memory get huge pages that ask for them by madvise.
bool huge_pages_go_to_who_asks() {
  for (const char* setting : {"/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                              "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/shmem_enabled"}) {
    std::ifstream file(setting);
    for (std::string word; file >> word;) {
      if (word == "[advise]") return true;
    }
  }
  return false;
}

/// Allocates all pages now, so that a lack of memory is reported here, not by SIGBUS at a later write.
bool take_pages(const FileDescriptor& fd, std::byte* data, std::size_t bytes,
                const SharedMemory::NextBlock& next_block) {
  // fallocate ignores a mapping's madvise, and would allocate small pages; else it is faster, since it maps nothing.
  // If madvise fails (always before Linux 5.14), fallocate is called all the same, at least for its errno.
  const bool through_mapping = bytes >= huge_page && huge_pages_go_to_who_asks();
  for (std::size_t taken = 0; taken < bytes;) {
    const std::size_t left = bytes - taken;
    const std::size_t block = next_block ? std::min(next_block(left), left) : left;
    const bool populated = through_mapping && ::madvise(data + taken, block, MADV_POPULATE_WRITE) == 0;
    if (!populated && !allocate_in_steps(fd.get(), taken, block)) return false;
    taken += block;
  }
  return true;
}

}  // namespace

SharedMemory::SharedMemory(FileDescriptor fd, std::size_t bytes)
    : descriptor_(std::move(fd)), data_(map(descriptor_, bytes, PROT_READ | PROT_WRITE)), bytes_(bytes) {}

SharedMemory::SharedMemory(std::size_t bytes, const NextBlock& next_block) : SharedMemory(create(bytes), bytes) {
  if (!take_pages(descriptor_, data_, bytes, next_block)) refuse(bytes, "fallocate");
  // Sealed, so that no process can shrink it while a peer accesses it.
  if (::fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    refuse(bytes, "sealing");
  }
}

SharedMemory::SharedMemory(const FileDescriptor& fd, std::size_t bytes, Access access)
    : data_(map(fd, bytes, access == Access::write ? PROT_READ | PROT_WRITE : PROT_READ)), bytes_(bytes) {}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

FileDescriptor SharedMemory::take_descriptor() noexcept { return std::move(descriptor_); }

}  // namespace tandem

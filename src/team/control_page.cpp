// SPDX-License-Identifier: Apache-2.0
#include "team/control_page.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem {
namespace {

OutOfMemory refusal(const char* call) {
  return OutOfMemory(format("a team's control page could not be shared: {} failed: {}", call, std::strerror(errno)));
}

WaitControl* map(int fd, int protection) {
  void* const page = ::mmap(nullptr, ControlPage::bytes(), protection, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) throw refusal("mmap");
  return static_cast<WaitControl*>(page);
}

}  // namespace

ControlPage::ControlPage()
    : descriptor_(
          FileDescriptor::from_native_handle(::memfd_create("tandem-control", MFD_CLOEXEC | MFD_ALLOW_SEALING))) {
  if (!descriptor_) throw refusal("memfd_create");
  if (::ftruncate(descriptor_.get(), static_cast<off_t>(bytes())) != 0) throw refusal("ftruncate");
  // Nobody can shrink it under a peer's feet.
  if (::fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) throw refusal("sealing");
  data_ = map(descriptor_.get(), PROT_READ | PROT_WRITE);
}

ControlPage::ControlPage(const FileDescriptor& shared) : data_(map(shared.get(), PROT_READ)) {}

ControlPage::ControlPage(ControlPage&& other) noexcept
    : descriptor_(std::move(other.descriptor_)), data_(std::exchange(other.data_, nullptr)) {}

ControlPage::~ControlPage() {
  if (data_ != nullptr) ::munmap(data_, bytes());
}

std::size_t ControlPage::bytes() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace tandem

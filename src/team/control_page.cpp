// SPDX-License-Identifier: Apache-2.0
#include "team/control_page.hpp"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/shared_memory.hpp"

namespace tandem {
namespace {

WaitControl* map(int fd, int protection) {
  void* const page = ::mmap(nullptr, ControlPage::bytes(), protection, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) throw OutOfMemory(format("a team's control page: mmap failed: {}", std::strerror(errno)));
  return static_cast<WaitControl*>(page);
}

}  // namespace

ControlPage::ControlPage()
    : descriptor_(create_shared_memory(bytes())), data_(map(descriptor_.get(), PROT_READ | PROT_WRITE)) {}

ControlPage::ControlPage(const FileDescriptor& shared) : data_(map(shared.get(), PROT_READ)) {}

ControlPage::ControlPage(ControlPage&& other) noexcept
    : descriptor_(std::move(other.descriptor_)), data_(std::exchange(other.data_, nullptr)) {}

ControlPage::~ControlPage() {
  if (data_ != nullptr) ::munmap(data_, bytes());
}

std::size_t ControlPage::bytes() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "team/control_page.hpp"

#include <unistd.h>

namespace tandem {

ControlPage::ControlPage() : memory_(bytes()) {}
ControlPage::ControlPage(const FileDescriptor& shared) : memory_(shared, bytes(), SharedMemory::Access::read) {}

std::size_t ControlPage::bytes() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace tandem

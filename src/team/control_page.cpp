// SPDX-License-Identifier: Apache-2.0
#include "team/control_page.hpp"

#include <unistd.h>

#include "base/checked.hpp"

namespace tandem {
namespace {

std::size_t whole_pages(int world_size) noexcept {
  return round_up(wait_control_bytes(world_size), static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace

ControlPage::ControlPage(int world_size) : memory_(whole_pages(world_size)) {}
ControlPage::ControlPage(const FileDescriptor& shared, int world_size)
    : memory_(shared, whole_pages(world_size), SharedMemory::Access::read) {}

}  // namespace tandem

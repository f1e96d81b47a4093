// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem {

namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t huge_page = std::size_t{2} * 1024 * 1024;

}  // namespace

void* allocate_host_memory(std::size_t bytes) {
  // Linux would grant more than the machine has, and kill a process once that memory is touched.
  const std::size_t machine =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > machine) {
    throw OutOfMemory(format("host device: {} bytes were asked for, the machine has {}", bytes, machine));
  }
  const bool large = bytes >= 2 * huge_page;
  void* memory = nullptr;
  if (::posix_memalign(&memory, large ? huge_page : cache_line, std::max<std::size_t>(bytes, 1)) != 0) {
    throw OutOfMemory(format("host device: {} bytes were asked for and not given", bytes));
  }
  if (large) ::madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE);
  return memory;
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
// What only the host's memory does: it takes its pages at once.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tandem/memory/symmetric_memory.hpp"

#include "support/ranks.hpp"

namespace {

std::atomic<bool> signals_rain{false};

}  // namespace

/// Stands before the C library's. Older kernels let any signal interrupt it, and undo what it has done: where signals
/// rain, only a call for few pages gets through.
extern "C" __attribute__((visibility("default"))) int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (signals_rain && bytes > 16 * 1024) {
    errno = EINTR;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, bytes));
}

namespace tandem {
namespace {

using testing::run_ranks;

TEST(HostBackend, TakesItsPagesWhateverSignalsCome) {
  run_ranks(1, [](World& world) {
    signals_rain = true;
    SymmetricMemory memory;
    EXPECT_NO_THROW(memory = SymmetricMemory::allocate(world.team(), 1'000'000));
    signals_rain = false;
    if (memory) memory.data()[999'999] = std::byte{1};
  });
}

}  // namespace
}  // namespace tandem

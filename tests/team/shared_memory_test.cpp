// SPDX-License-Identifier: Apache-2.0
#include "team/shared_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <gtest/gtest.h>
#include <span>
#include <stdexcept>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"

#include "support/errors.hpp"

namespace tandem {
namespace {

constexpr std::size_t block = 64 * 1024;

TEST(SharedMemory, IsAllocatedInTheBlocksThatItIsAllowed) {
  std::vector<std::size_t> left;
  const SharedMemory memory(3 * block + 4096, [&left](std::size_t bytes) {
    left.push_back(bytes);
    return left.size() == 1 ? 2 * block : block;
  });
  EXPECT_EQ(left, (std::vector<std::size_t>{3 * block + 4096, block + 4096, 4096}));
  const std::span bytes(memory.data(), memory.bytes());
  EXPECT_EQ(bytes.size(), 3 * block + 4096);
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte value) { return value == std::byte{0}; }));
}

TEST(SharedMemory, AFileThatIsLargerThanAllowedIsAnErrorAndNoSignal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = block, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  testing::expect_error<OutOfMemory>(
      [] { const SharedMemory memory(2 * block, [](std::size_t left) { return left; }); },
      {"131072 bytes", "ulimit -f"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(SharedMemory, LeavesNothingWhenABlockIsRefused) {
  const int next = ::dup(STDERR_FILENO);
  ::close(next);
  const auto refuse_second = [](std::size_t left) -> std::size_t {
    if (left < 3 * block) throw std::runtime_error("no more");
    return block;
  };
  EXPECT_THROW(SharedMemory(3 * block, refuse_second), std::runtime_error);
  const int now = ::dup(STDERR_FILENO);
  EXPECT_EQ(now, next) << "a descriptor is still open";
  ::close(now);
}

}  // namespace
}  // namespace tandem

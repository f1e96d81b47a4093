// SPDX-License-Identifier: Apache-2.0
#include "team/shared_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <gtest/gtest.h>
#include <span>
#include <stdexcept>
#include <unistd.h>
#include <vector>

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

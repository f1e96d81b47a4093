// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <thread>

#include "tandem/device/device.hpp"
#include "tandem/team/team.hpp"

namespace tandem::testing {

/// The free memory of the current GPU, which all its processes share.
inline std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

/// Free memory may vary by this much, because the driver allocates in granules.
inline constexpr std::size_t memory_not_lost = std::size_t{4} << 20;

/// By how much `times` calls of `once` reduce the free memory of this rank's GPU, after a few first calls, in which the
/// driver and libraries allocate what they keep. Collective. Waits up to `patience` for memory that is freed late: the
/// driver releases a graph's objects on a thread of its own.
template <typename Once>
std::size_t memory_lost(const Team& team, int times, std::chrono::milliseconds patience, const Once& once) {
  EXPECT_EQ(cudaSetDevice(team.device().id().index), cudaSuccess);
  constexpr int first_times = 2;
  for (int i = 0; i < first_times; ++i) once();
  std::this_thread::sleep_for(std::min(patience, std::chrono::milliseconds(200)));
  team.collect();
  team.barrier();
  const std::size_t before = free_memory();
  team.barrier();
  for (int i = 0; i < times; ++i) once();
  team.barrier();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::size_t now = 0;
  while (true) {
    team.collect();
    now = free_memory();
    if (now + memory_not_lost > before || std::chrono::steady_clock::now() > deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  team.barrier();
  return now > before ? 0 : before - now;
}

}  // namespace tandem::testing

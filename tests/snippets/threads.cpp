// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tandem/team/world.hpp"

namespace {

std::atomic<int> met{0};

void work(const tandem::World& world) {
  world.team().barrier();
  ++met;
}

}  // namespace

int main() {
  // [threads]
  constexpr int ranks = 3;
  const std::string job = "threads." + std::to_string(getpid());  // the same on all ranks, and nobody else's
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&job, rank] {
      const tandem::Launch launch{.rank = rank,
                                  .world_size = ranks,
                                  .local_rank = rank,
                                  .local_size = ranks,
                                  .nodes = 1,
                                  .job = job,
                                  .launcher = "threads"};
      const tandem::World world = tandem::init({.launch = launch, .device = tandem::DeviceId{}});  // on the host
      work(world);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // [/threads]
  return met == ranks ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// A rank that says how it was started. `probe --lose R`: rank R kills itself, and the others go on without it.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/team/world.hpp"

namespace {

/// Ends when `lost` is lost; then the others make a team.
void go_on_without(const tandem::World& world, int lost) {
  if (world.rank() == lost) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others may still be in main's barrier
    ::kill(::getpid(), SIGKILL);
  }
  try {
    while (true) world.team().barrier();
  } catch (const tandem::PeerLost& error) {
    std::vector<int> rest;
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank != error.rank()) rest.push_back(rank);
    }
    world.team(rest).barrier();
    std::printf("rank %d goes on without %d\n", world.rank(), error.rank());
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const tandem::World world = tandem::init();
    world.team().barrier();
    std::printf("rank %d of %d by %s\n", world.rank(), world.size(), world.launch().launcher.c_str());
    if (argc == 3 && std::string_view(argv[1]) == "--lose") go_on_without(world, std::atoi(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

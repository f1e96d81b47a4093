// SPDX-License-Identifier: Apache-2.0
// A rank that prints how it was started. `probe --lose R`: rank R kills itself, and the others continue without it.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/team/world.hpp"

namespace {

/// Rank `lost` kills itself; the others repeat a barrier until they notice, and then make a team without it.
void go_on_without(const tandem::World& world, int lost) {
  try {
    world.team().barrier();
    if (world.rank() == lost) ::kill(::getpid(), SIGKILL);  // others may still be in that barrier
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
    if (argc == 3 && std::string_view(argv[1]) == "--lose") {
      go_on_without(world, std::atoi(argv[2]));
    } else {
      world.team().barrier();
      std::printf("rank %d of %d by %s\n", world.rank(), world.size(), world.launch().launcher.c_str());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

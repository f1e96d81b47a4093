// SPDX-License-Identifier: Apache-2.0
// [world]
#include <cstdio>

#include "tandem/team/world.hpp"

int main() {
  const tandem::World world = tandem::init();
  std::printf("rank %d of %d\n", world.rank(), world.size());
  std::printf("%s\n", world.describe().c_str());
}
// [/world]

// SPDX-License-Identifier: Apache-2.0
// [world]
#include "tandem/team/world.hpp"

#include <cstdio>

int main() {
  const tandem::World world = tandem::init();
  std::printf("rank %d of %d\n", world.rank(), world.size());
  std::printf("%s\n", world.describe().c_str());
}
// [/world]

// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/resident_blocks.hpp"

#include <gtest/gtest.h>

#include "tandem/device/device.hpp"

#include "support/devices.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using testing::team_sizes;

class ResidentBlocksTest : public testing::OnEachDevice {};

TEST_P(ResidentBlocksTest, AllBlocksOfAllRanksThatShareAGpuRunAtOnce) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      const int most = team.device().hardware().blocks_at_once;
      const int blocks = resident_blocks(team);
      EXPECT_GE(blocks, 1);
      if (most == 0) return;  // no kernel of the host's waits
      const int gpus = device_count(DeviceType::cuda);
      const int sharing = (team.size() + gpus - 1) / gpus;
      EXPECT_LE(blocks * sharing, most);
      EXPECT_GT((blocks + 1) * sharing, most);
    });
  }
}

TANDEM_ON_EACH_DEVICE(ResidentBlocksTest);

}  // namespace
}  // namespace tandem

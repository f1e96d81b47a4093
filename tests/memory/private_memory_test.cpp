// SPDX-License-Identifier: Apache-2.0
#include "memory/private_memory.hpp"

#include <cstddef>
#include <cstring>
#include <gtest/gtest.h>
#include <utility>
#include <vector>

#include "support/devices.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using testing::team_sizes;

class PrivateMemoryTest : public testing::OnEachDevice {};

TEST_P(PrivateMemoryTest, AllRanksAgreeOnWhatALoanCosts) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      const double cost = loan_cost(team);
      std::vector<std::byte> bytes(sizeof(cost));
      std::memcpy(bytes.data(), &cost, sizeof(cost));
      Parcel mine;
      mine.bytes = bytes;
      for (const Parcel& parcel : team.exchange("costs", std::move(mine))) EXPECT_EQ(parcel.bytes, bytes);
      if (why_no_loans(team).empty()) {
        EXPECT_GT(cost, 0);
      } else {
        EXPECT_EQ(cost, 0);
      }
    });
  }
}

TANDEM_ON_EACH_DEVICE(PrivateMemoryTest);

}  // namespace
}  // namespace tandem

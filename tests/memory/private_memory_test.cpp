// SPDX-License-Identifier: Apache-2.0
#include "memory/private_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "support/devices.hpp"
#include "support/oracle.hpp"
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

/// What a rank announces, for the others to read.
struct Announced {
  pid_t pid;
  const std::uint64_t* address;
  std::uint64_t value;
};

// Else tests of loans would skip themselves without anybody noticing. Asks the system, and not the library.
TEST_P(PrivateMemoryTest, RanksLendWhereTheSystemLetsThemRead) {
  on(3, [](World& world) {
    const Team& team = world.team();
    if (team.device().id().type != DeviceType::host) {
      EXPECT_NE(why_no_loans(team), "");
      return;
    }
    const std::uint64_t value = testing::random_bits(testing::seed(), static_cast<std::uint64_t>(team.rank()));
    const Announced mine{::getpid(), &value, value};
    Parcel parcel;
    parcel.bytes.resize(sizeof(mine));
    std::memcpy(parcel.bytes.data(), &mine, sizeof(mine));
    std::uint8_t reads_all = 1;
    for (const Parcel& each : team.exchange("announce", std::move(parcel))) {
      Announced theirs{};
      ASSERT_EQ(each.bytes.size(), sizeof(theirs));
      std::memcpy(&theirs, each.bytes.data(), sizeof(theirs));
      std::uint64_t found = 0;
      const iovec to{&found, sizeof(found)};
      const iovec from{const_cast<std::uint64_t*>(theirs.address), sizeof(found)};
      const ssize_t read = ::process_vm_readv(theirs.pid, &to, 1, &from, 1, 0);
      if (read != sizeof(found) || found != theirs.value) reads_all = 0;
    }
    Parcel verdict;
    verdict.bytes = {std::byte{reads_all}};
    for (const Parcel& each : team.exchange("verdicts", std::move(verdict))) {
      if (each.bytes != std::vector{std::byte{1}}) reads_all = 0;
    }
    EXPECT_EQ(why_no_loans(team).empty(), reads_all == 1) << why_no_loans(team);
  });
}

TANDEM_ON_EACH_DEVICE(PrivateMemoryTest);

}  // namespace
}  // namespace tandem

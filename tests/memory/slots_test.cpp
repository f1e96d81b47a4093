// SPDX-License-Identifier: Apache-2.0
#include "memory/slots.hpp"

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/buffer.hpp"

#include "memory/private_memory.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using testing::team_sizes;

class SlotsTest : public testing::OnEachDevice {};

/// Every rank pushes a number into each peer's slot repeatedly, without synchronizing the host in between, with random
/// delays on both sides. If a credit were granted too early, or a signal arrived before its data, a sum would be wrong.
TEST_P(SlotsTest, NothingIsOverwrittenBeforeItIsRead) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      Device& device = world.device();
      constexpr std::int32_t rounds = 60;
      Slots slots(team, sizeof(std::int32_t) * static_cast<std::size_t>(team.size()), 1,
                  team.register_operation("slots test"));
      Buffer values(world.shared_device(), sizeof(std::int32_t) * rounds);
      Buffer sums(world.shared_device(), sizeof(std::int32_t) * rounds);
      std::vector<std::int32_t> sent(rounds);
      for (std::int32_t i = 0; i < rounds; ++i) sent[static_cast<std::size_t>(i)] = 1000 * i + team.rank() + 1;
      device.upload(values.data(), sent.data(), values.bytes());

      const Stream stream(device);
      std::mt19937 random(static_cast<unsigned>(testing::seed() + static_cast<std::uint64_t>(team.rank())));
      for (std::int32_t i = 0; i < rounds; ++i) {
        const int slot = slots.next();
        const auto maybe_late = [&] {
          if (random() % 8 != 0) return;
          const auto delay = std::chrono::microseconds(random() % 3'000);
          device.launch(stream, [delay] { std::this_thread::sleep_for(delay); });
        };
        const auto* value = values.data_as<std::int32_t>() + i;
        slots.take(stream, slot, slots.peers());
        for (const int peer : slots.peers()) {
          device.copy(stream,
                      {.dst = slots.remote(slot, peer) + sizeof(std::int32_t) * static_cast<std::size_t>(team.rank()),
                       .src = value,
                       .bytes = sizeof(std::int32_t),
                       .path = Path::link});
        }
        device.copy(stream, {.dst = slots.local(slot) + sizeof(std::int32_t) * static_cast<std::size_t>(team.rank()),
                             .src = value,
                             .bytes = sizeof(std::int32_t)});
        maybe_late();
        slots.signal(stream, slot, slots.peers(), 0);
        slots.wait(stream, slot, slots.peers(), 0);
        maybe_late();
        std::vector<const void*> sources;
        for (int rank = 0; rank < team.size(); ++rank) {
          sources.push_back(slots.local(slot) + sizeof(std::int32_t) * static_cast<std::size_t>(rank));
        }
        void* const sum = sums.data_as<std::int32_t>() + i;
        device.reduce(
            stream,
            {.sources = sources, .destinations = std::span(&sum, 1), .count = 1, .dtype = i32, .out_dtype = i32});
        slots.grant(stream, slot, slots.peers());
      }
      team.synchronize(stream);
      std::vector<std::int32_t> got(rounds);
      device.download(got.data(), sums.data(), sums.bytes());
      for (std::int32_t i = 0; i < rounds; ++i) {
        EXPECT_EQ(got[static_cast<std::size_t>(i)], team.size() * 1000 * i + team.size() * (team.size() + 1) / 2);
      }
      team.barrier();
    });
  }
}

TEST_P(SlotsTest, PeersAreVisitedInRotatedOrder) {
  on(4, [](World& world) {
    const Slots slots(world.team(), 8, 1, 0);
    const std::vector<int> peers(slots.peers().begin(), slots.peers().end());
    const int r = world.rank();
    EXPECT_EQ(peers, (std::vector<int>{(r + 1) % 4, (r + 2) % 4, (r + 3) % 4}));
    world.team().barrier();
  });
}

/// Every rank lends its private memory repeatedly, and overwrites it as soon as all peers have signaled that they have
/// read it, with random delays on both sides.
TEST_P(SlotsTest, LentMemoryIsReadBeforeItIsWrittenAgain) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      Device& device = world.device();
      if (GetParam() == DeviceType::cuda) {
        EXPECT_NE(why_no_loans(team), "");
        return;
      }
      if (!why_no_loans(team).empty()) GTEST_SKIP() << why_no_loans(team);
      constexpr int rounds = 60;
      constexpr std::uint32_t lent = 0;
      constexpr std::uint32_t drained = 1;
      constexpr std::size_t elements = 300;
      const Slots slots(team, 0, 2, team.register_operation("slots test"));
      const auto n = static_cast<std::size_t>(team.size());
      const auto value = [](int rank, int round, std::size_t i) {
        return rank * 1'000'000 + round * 1000 + static_cast<std::int32_t>(i);
      };
      std::vector<std::int32_t> mine(elements);
      std::vector<std::int32_t> got(rounds * n * elements);
      const Stream stream(device);
      std::mt19937 random(static_cast<unsigned>(testing::seed() + static_cast<std::uint64_t>(team.rank())));
      const auto maybe_late = [&] {
        if (random() % 8 != 0) return;
        const auto delay = std::chrono::microseconds(random() % 3'000);
        device.launch(stream, [delay] { std::this_thread::sleep_for(delay); });
      };
      for (int round = 0; round < rounds; ++round) {
        device.launch(stream, [&, round] {
          for (std::size_t i = 0; i < elements; ++i) mine[i] = value(team.rank(), round, i);
        });
        slots.lend(stream, mine.data(), lent);
        for (const int peer : slots.peers()) {
          slots.wait(stream, 0, std::span(&peer, 1), lent);
          maybe_late();
          std::int32_t* const to =
              &got[(static_cast<std::size_t>(round) * n + static_cast<std::size_t>(peer)) * elements];
          const std::size_t half = elements / 2;
          slots.fetch(stream, peer, lent, 0, to, half * sizeof(std::int32_t));
          slots.fetch(stream, peer, lent, half * sizeof(std::int32_t), to + half,
                      (elements - half) * sizeof(std::int32_t));
          slots.signal(stream, 0, std::span(&peer, 1), drained);
        }
        maybe_late();
        slots.wait(stream, 0, slots.peers(), drained);
      }
      team.synchronize(stream);
      for (int round = 0; round < rounds; ++round) {
        for (const int peer : slots.peers()) {
          for (std::size_t i = 0; i < elements; ++i) {
            ASSERT_EQ(got[(static_cast<std::size_t>(round) * n + static_cast<std::size_t>(peer)) * elements + i],
                      value(peer, round, i));
          }
        }
      }
      team.barrier();
    });
  }
}

/// Every rank sends letters of all lengths to each peer, with random delays: if a mailbox were overwritten before it
/// was read, a letter would have wrong bytes. Half of the letters are queued on an idle stream, since the host has
/// waited for it, and so are sent at once; the others are queued after unfinished work.
TEST_P(SlotsTest, LettersAreReadBeforeTheirMailboxIsWrittenAgain) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      Device& device = world.device();
      constexpr int rounds = 200;
      constexpr std::size_t longest = 150;
      Slots slots(team, 0, 1, team.register_operation("slots test"), longest);
      const Stream stream(device);
      if (!device.sends_letters()) {
        if (team.size() == 1) return;
        testing::expect_error<Unsupported>([&] { slots.mail(stream, [](int) { return Slots::Message(); }, {}); },
                                           {"cuda", "sends no letters"});
        return;
      }
      const auto n = static_cast<std::size_t>(team.size());
      const auto length = [](int from, int to, int round) {
        return static_cast<std::size_t>(from * 31 + to * 17 + round * 7) % (longest + 1);
      };
      const auto value = [](int from, int to, int round) { return static_cast<std::byte>(from * 50 + to * 5 + round); };
      std::vector<std::byte> mine(n * longest);
      std::vector<std::byte> got(rounds * n * longest);
      std::mt19937 random(static_cast<unsigned>(testing::seed() + static_cast<std::uint64_t>(team.rank())));
      const auto maybe_late = [&] {
        if (random() % 16 != 0) return;
        const auto delay = std::chrono::microseconds(random() % 2'000);
        device.launch(stream, [delay] { std::this_thread::sleep_for(delay); });
      };
      for (int round = 0; round < rounds; ++round) {
        const auto write = [&, round] {
          for (const int peer : slots.peers()) {
            const auto begin = mine.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(peer) * longest);
            std::fill_n(begin, longest, value(team.rank(), peer, round));
          }
        };
        if (random() % 2 == 0) {
          team.synchronize(stream);
          write();
        } else {
          device.launch(stream, write);
        }
        slots.next_mail();
        slots.mail(stream,
                   [&](int peer) {
                     return Slots::Message{&mine[static_cast<std::size_t>(peer) * longest],
                                           length(team.rank(), peer, round)};
                   },
                   {});
        maybe_late();
        for (const int peer : slots.peers()) {
          std::byte* const to = &got[(static_cast<std::size_t>(round) * n + static_cast<std::size_t>(peer)) * longest];
          device.copy(stream, {.dst = to, .src = slots.mailed(peer), .bytes = length(peer, team.rank(), round)});
        }
      }
      team.synchronize(stream);
      for (int round = 0; round < rounds; ++round) {
        for (const int peer : slots.peers()) {
          const std::byte* const from =
              &got[(static_cast<std::size_t>(round) * n + static_cast<std::size_t>(peer)) * longest];
          for (std::size_t i = 0; i < longest; ++i) {
            const bool written = i < length(peer, team.rank(), round);
            ASSERT_EQ(from[i], written ? value(peer, team.rank(), round) : std::byte{}) << round << " " << i;
          }
        }
      }
      team.barrier();
    });
  }
}

TEST_P(SlotsTest, ALetterThatDoesNotComeIsATimeoutThatNamesItsWriter) {
  if (GetParam() == DeviceType::cuda) GTEST_SKIP() << "the host alone sends letters";
  on(3, [](World& world) {
    const Team team = world.team({0, 1, 2});
    Slots slots(team, 0, 1, team.register_operation("slots test"), 8);
    const Stream stream(world.device());
    world.team().barrier();  // from here on only rank 1 is late
    if (team.rank() == 1) {
      testing::expect_error<Aborted>(
          [&] {
            for (;;) {
              team.check();
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
          },
          {"slots test"});
    } else {
      team.set_timeout(std::chrono::seconds(2));
      const std::uint64_t value = 1;
      slots.next_mail();
      slots.mail(stream, [&](int) { return Slots::Message{&value, sizeof(value)}; }, {});
      try {
        team.synchronize(stream);
        ADD_FAILURE() << "rank 1 sent nothing";
      } catch (const Timeout& error) {
        EXPECT_EQ(error.peer(), 1);
        testing::expect_says(error.what(), {"slots test", "rank 1"});
      } catch (const Aborted& error) {
        testing::expect_says(error.what(), {"slots test"});  // the other rank's wait ended first
      }
    }
    world.team().barrier();  // if rank 1 had ended its world, it would be lost, not late
  });
}

TEST_P(SlotsTest, MemoryThatCannotBeReadIsAnErrorThatNamesItsLender) {
  if (GetParam() == DeviceType::cuda) GTEST_SKIP() << "the host alone lends private memory";
  on(2, [](World& world) {
    const Team& team = world.team();
    if (team.peer(0).pid == team.peer(1).pid) GTEST_SKIP() << "ranks of one process may read each other as they please";
    if (!why_no_loans(team).empty()) GTEST_SKIP() << why_no_loans(team);
    const Slots slots(team, 0, 2, team.register_operation("slots test"));
    const Stream stream(world.device());
    std::uint64_t value = 0;
    if (team.rank() == 0) {
      slots.lend(stream, reinterpret_cast<const void*>(64), 0);
      slots.wait(stream, 0, slots.peers(), 1);
    } else {
      team.set_timeout(std::chrono::seconds(20));  // before rank 0's own wait reaches its deadline
      slots.wait(stream, 0, slots.peers(), 0);
      slots.fetch(stream, 0, 0, 0, &value, sizeof(value));
    }
    testing::expect_error<Aborted>([&] { team.synchronize(stream); },
                                   {"slots test", "could not read the memory that rank 0", "Bad address"});
  });
}

TANDEM_ON_EACH_DEVICE(SlotsTest);

}  // namespace
}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "tandem/team/team.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <malloc.h>
#include <numeric>
#include <random>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/shared.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::error_of;
using testing::expect_says;
using testing::run_ranks;
using testing::team_sizes;

Parcel parcel_of(const std::string& text) {
  const auto raw = std::as_bytes(std::span(text));
  return {{raw.begin(), raw.end()}, {}};
}

std::string text_of(const Parcel& parcel) {
  return {reinterpret_cast<const char*>(parcel.bytes.data()), parcel.bytes.size()};
}

/// Members of `team` tell each other their world ranks, and each checks what it is told.
void expect_works(const Team& team, const World& world) {
  const auto all = team.exchange("names", parcel_of(std::to_string(world.rank())));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(team.size()));
  for (int r = 0; r < team.size(); ++r) {
    EXPECT_EQ(text_of(all[static_cast<std::size_t>(r)]), std::to_string(team.world_rank(r)));
    EXPECT_EQ(team.members()[static_cast<std::size_t>(r)], team.world_rank(r));
    EXPECT_EQ(team.peer(r).rank, team.world_rank(r));
  }
  EXPECT_EQ(team.world_rank(team.rank()), world.rank());
  team.barrier();
}

TEST(Team, WorldOfEverySizeMeets) {
  for (const int ranks : team_sizes()) {
    run_ranks(ranks, [ranks](World& world) {
      EXPECT_EQ(world.size(), ranks);
      EXPECT_EQ(world.team().size(), ranks);
      EXPECT_EQ(world.team().rank(), world.rank());
      expect_works(world.team(), world);
      world.team().agree("what", "the same");
    });
  }
}

TEST(Team, RanksMayBeThreads) {
  for (const int ranks : team_sizes()) {
    run_ranks(ranks,
              [](World& world) {
                expect_works(world.team(), world);
                if (world.rank() < 2 && world.size() > 1) expect_works(world.team({1, 0}), world);
              },
              {.kind = testing::RankKind::threads});
  }
}

TEST(Team, AnyOrderedSubsetIsATeam) {
  for (const int ranks : team_sizes()) {
    run_ranks(ranks, [ranks, seed = testing::seed()](World& world) {
      std::mt19937_64 random(seed);  // the same choices on all ranks
      for (int round = 0; round < 8; ++round) {
        std::vector<int> members(static_cast<std::size_t>(ranks));
        std::iota(members.begin(), members.end(), 0);
        std::shuffle(members.begin(), members.end(), random);
        members.resize(1 + random() % members.size());
        const auto place = std::find(members.begin(), members.end(), world.rank());
        const Team team = world.team(members);
        if (place == members.end()) {
          EXPECT_FALSE(team);
          EXPECT_EQ(team.rank(), -1);
          EXPECT_EQ(team.size(), 0);
          continue;
        }
        ASSERT_TRUE(team);
        EXPECT_EQ(team.rank(), place - members.begin());
        EXPECT_TRUE(std::equal(members.begin(), members.end(), team.members().begin(), team.members().end()));
        expect_works(team, world);
      }
    });
  }
}

TEST(Team, SubTeamsHaveSubTeams) {
  run_ranks(8, [](World& world) {
    const Team odd = world.team({7, 5, 3, 1});
    EXPECT_EQ(static_cast<bool>(odd), world.rank() % 2 == 1);
    if (!odd) return;
    const Team two = odd.team({2, 0});  // ranks in `odd`: world ranks 3 and 7
    EXPECT_EQ(static_cast<bool>(two), world.rank() == 3 || world.rank() == 7);
    if (two) {
      EXPECT_EQ(two.rank(), world.rank() == 3 ? 0 : 1);
      expect_works(two, world);
      const Team one = two.team({two.rank()});
      EXPECT_EQ(one.size(), 1);
      expect_works(one, world);
    }
    expect_works(odd, world);
  });
}

TEST(Team, OthersNeedNotCall) {
  run_ranks(4, [](World& world) {
    if (world.rank() == 0) return;
    if (world.rank() == 3) {
      expect_works(world.team({3}), world);
      return;
    }
    expect_works(world.team({2, 1}), world);
  });
}

TEST(Team, TwoTeamsOfTheSameRanksShareNothing) {
  run_ranks(3, [](World& world) {
    const Team first = world.team({0, 1, 2});
    const Team second = world.team({0, 1, 2});
    EXPECT_FALSE(first == second);
    EXPECT_NE(first.id(), second.id());
    EXPECT_NE(first.control(), second.control());
    // On rank 1 the two threads use each other's team: neither team waits for the other's calls.
    const bool swap = world.rank() == 1;
    std::thread other([&] { expect_works(swap ? first : second, world); });
    expect_works(swap ? second : first, world);
    other.join();
    world.team().barrier();
    if (world.rank() == 2) first.abort("enough");
    EXPECT_THROW(while (true) first.barrier(), Aborted);
    EXPECT_FALSE(second.failed());
    expect_works(second, world);
  });
}

TEST(Team, AnEmptyTeamSaysSo) {
  const Team empty;
  EXPECT_FALSE(empty);
  EXPECT_EQ(empty.rank(), -1);
  EXPECT_EQ(empty.size(), 0);
  EXPECT_FALSE(empty.failed());
  empty.abort("nobody hears this");
  const std::vector<std::function<void()>> uses{
      [&] { static_cast<void>(empty.world_rank(0)); },
      [&] { static_cast<void>(empty.members()); },
      [&] { static_cast<void>(empty.peer(0)); },
      [&] { static_cast<void>(empty.id()); },
      [&] { static_cast<void>(empty.team({0})); },
      [&] { static_cast<void>(empty.device()); },
      [&] { static_cast<void>(empty.env()); },
      [&] { static_cast<void>(empty.exchange("what", {})); },
      [&] { empty.agree("what", ""); },
      [&] { empty.barrier(); },
      [&] { empty.check(); },
      [&] { static_cast<void>(empty.timeout()); },
      [&] { empty.collect(); },
  };
  for (const auto& use : uses) expect_says(error_of<InvalidArgument>(use), {"this team is empty", "allowed"});
}

TEST(Team, RefusesRanksThatCannotBeInATeam) {
  run_ranks(3, [](World& world) {
    expect_says(error_of<InvalidArgument>([&] { static_cast<void>(world.team({0, 3})); }), {"rank 3", "0 to 2"});
    expect_says(error_of<InvalidArgument>([&] { static_cast<void>(world.team({-1})); }), {"rank -1", "0 to 2"});
    expect_says(error_of<InvalidArgument>([&] { static_cast<void>(world.team({1, 0, 1})); }), {"rank 1", "[1, 0, 1]"});
    expect_says(error_of<InvalidArgument>([&] { static_cast<void>(world.team().world_rank(3)); }), {"3", "0 to 2"});
    EXPECT_FALSE(world.team(std::vector<int>{}));
    expect_works(world.team(), world);
  });
}

TEST(Team, AMismatchIsNamedOnEveryMember) {
  run_ranks(4, [](World& world) {
    const Team& team = world.team();
    const auto differing = error_of<InvalidArgument>(
        [&] { team.agree("AllReduce", world.rank() == 2 ? "count 7, bf16" : "count 8, bf16"); });
    expect_says(differing, {"AllReduce", "rank 0 ", "'count 8, bf16'", "rank 2 ", "'count 7, bf16'"});
    const auto other_call = error_of<InvalidArgument>(
        [&] { static_cast<void>(team.exchange(world.rank() == 3 ? "AllGather" : "AllReduce", {})); });
    expect_says(other_call, {"rank 3 ", "'AllGather'", "rank 0 ", "'AllReduce'", "the same order"});
    expect_works(team, world);  // a mismatch is an error of the call, not the end of the team
  });
}

TEST(Team, AClosedDescriptorIsRefusedBeforeAnythingIsSent) {
  run_ranks(3, [](World& world) {
    if (world.rank() == 1) {
      Parcel mine = parcel_of("closed");
      mine.descriptors.push_back(FileDescriptor::from_native_handle(999'999'999));  // beyond every limit
      expect_says(error_of<InvalidArgument>([&] { static_cast<void>(world.team().exchange("x", std::move(mine))); }),
                  {"is not open"});
    }
    const auto all = world.team().exchange("x", parcel_of(std::to_string(world.rank())));  // all are in step
    for (int r = 0; r < world.size(); ++r) EXPECT_EQ(text_of(all[static_cast<std::size_t>(r)]), std::to_string(r));
  });
}

TEST(Team, MembersThatListDifferentRanksAreNamed) {
  run_ranks(4, [](World& world) {
    const std::vector<int> mine = world.rank() == 1 ? std::vector<int>{0, 1, 3} : std::vector<int>{0, 1, 2};
    const std::string error = error_of<InvalidArgument>([&] {
      if (world.rank() != 3) static_cast<void>(world.team(mine));
      if (world.rank() == 3) static_cast<void>(world.team({0, 1, 3}));
    });
    expect_says(error, {"[0, 1, 3]", "[0, 1, 2]", "the same order"});
    world.team().barrier();
    expect_works(world.team({3, 2, 1, 0}), world);  // and the next team is not affected
  });
}

TEST(Team, ExchangesMuchAndManyDescriptors) {
  run_ranks(3, [](World& world) {
    const std::size_t descriptors = 300;
    std::string text(5'000'000, 'x');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + (i * 31 + 7) % 26);
    text[0] = static_cast<char>('0' + world.rank());
    Parcel mine = parcel_of(text);
    for (std::size_t i = 0; i < descriptors; ++i) {
      auto file = FileDescriptor::from_native_handle(::memfd_create("tandem test", MFD_CLOEXEC));
      const int number = world.rank() * 1000 + static_cast<int>(i);
      ASSERT_EQ(::pwrite(file.get(), &number, sizeof(number), 0), static_cast<ssize_t>(sizeof(number)));
      mine.descriptors.push_back(std::move(file));
    }
    const auto all = world.team().exchange("much", std::move(mine));
    for (int r = 0; r < world.size(); ++r) {
      const Parcel& theirs = all[static_cast<std::size_t>(r)];
      text[0] = static_cast<char>('0' + r);
      EXPECT_TRUE(text_of(theirs) == text);
      ASSERT_EQ(theirs.descriptors.size(), descriptors);
      for (std::size_t i = 0; i < descriptors; ++i) {
        int number = -1;
        ASSERT_EQ(::pread(theirs.descriptors[i].get(), &number, sizeof(number), 0),
                  static_cast<ssize_t>(sizeof(number)));
        EXPECT_EQ(number, r * 1000 + static_cast<int>(i));
        EXPECT_NE(::fcntl(theirs.descriptors[i].get(), F_GETFD) & FD_CLOEXEC, 0);
      }
    }
  });
}

TEST(Team, AnAbortEndsEveryMembersCallsAndStays) {
  run_ranks(3, [](World& world) {
    const Team team = world.team({2, 0, 1});
    world.team().barrier();  // an abort would end the construction of the team on a member that is still in it
    if (world.rank() == 1) {
      team.abort("the loss is not finite");
    } else {
      expect_says(error_of<Aborted>([&] {
                    while (true) team.barrier();
                  }),
                  {"rank 1 ", "the loss is not finite"});
    }
    EXPECT_TRUE(team.failed());
    expect_says(error_of<Aborted>([&] { team.check(); }), {"the loss is not finite"});
    expect_says(error_of<Aborted>([&] { static_cast<void>(team.exchange("what", {})); }), {"the loss is not finite"});
    expect_works(world.team(), world);
    expect_works(world.team({0, 1, 2}), world);
  });
}

TEST(Team, WhatARankHadQueuedAndFailedIsToldToAll) {
  run_ranks(3, [](World& world) {
    const Team team = world.team({2, 0, 1});
    world.team().barrier();  // an abort would end the construction of the team on a member that is still in it
    const Stream stream(world.device());
    if (world.rank() == 0) {
      team.device().launch(stream, [] { throw DeviceError("no product"); });
      expect_says(error_of<DeviceError>([&] { team.synchronize(stream); }), {"no product"});
    } else {
      expect_says(error_of<Aborted>([&] {
                    while (true) team.barrier();
                  }),
                  {"rank 0 ", "no product"});
    }
    EXPECT_TRUE(team.failed());
    expect_works(world.team(), world);
  });
}

TEST(Team, AnAbortOfATeamThatThisRankHasLetGoOfIsNotKept) {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what this process has allocated is asked of glibc's own allocator";
#else
  run_ranks(2, [](World& world) {
    const std::string reason(50'000, 'x');
    const auto allocated = [] { return ::mallinfo2().uordblks; };
    std::size_t before = 0;
    for (int round = 0; round < 60; ++round) {
      Team team = world.team({round % 2, 1 - round % 2});
      team.barrier();
      if (world.rank() == 1) team = Team();
      world.team().barrier();
      if (world.rank() == 0) team.abort(reason);
      world.team().barrier();
      if (round == 9) before = allocated();
    }
    EXPECT_LT(allocated(), before + 10 * reason.size()) << "after 50 aborts";
  });
#endif
}

TEST(Team, AnotherThreadMayAbort) {
  run_ranks(2, [](World& world) {
    const Team team = world.team({0, 1});
    if (world.rank() == 0) {
      std::thread other([&] {
        std::this_thread::sleep_for(20ms);
        team.abort("by a signal");
      });
      expect_says(error_of<Aborted>([&] { team.barrier(); }), {"by a signal"});
      other.join();
    }
    world.team().barrier();
  });
}

TEST(Team, ADeadlineNamesWhoDidNotCome) {
  run_ranks(2, [](World& world) {
    const Team team = world.team({1, 0});
    if (world.rank() == 0) {
      team.set_timeout(150ms);
      try {
        team.barrier();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Timeout& error) {
        EXPECT_EQ(error.peer(), 1);
        expect_says(error.what(), {"rank 1 ", "barrier", "150 ms"});
      }
    }
    world.team().barrier();
  });
  run_ranks(3, [](World& world) {
    const Team team = world.team({0, 1, 2});
    team.set_timeout(150ms);
    EXPECT_EQ(team.timeout(), 150ms);
    if (world.rank() != 1) {
      const auto before = std::chrono::steady_clock::now();
      try {
        team.barrier();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Timeout& error) {
        EXPECT_TRUE(error.peer() == 1 || error.peer() == -1) << error.peer();  // -1: the other one is late as well
        expect_says(error.what(), {"rank 1 ", "barrier", "150 ms"});
        EXPECT_GE(std::chrono::steady_clock::now() - before, 150ms);
      } catch (const Aborted& error) {  // the other one's deadline was first, and it told why
        expect_says(error.what(), {"rank 1 ", "barrier"});
      }
      EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
      EXPECT_TRUE(team.failed());
    }
    world.team().barrier();
    if (world.rank() == 1) {
      expect_says(error_of<Aborted>([&] { team.barrier(); }), {"rank 1 ", "barrier"});
    }
    EXPECT_THROW(team.set_timeout(0ms), InvalidArgument);
    expect_works(world.team(), world);
  });
}

TEST(Team, ATeamThatIsNotMadeNamesWhoDidNotCome) {
  run_ranks(3, [](World& world) {
    const Team parent = world.team({0, 1, 2});
    parent.set_timeout(150ms);
    if (world.rank() != 2) {
      try {
        static_cast<void>(parent.team({0, 1, 2}));
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Timeout& error) {
        EXPECT_EQ(error.peer(), 2);
        expect_says(error.what(), {"[0, 1, 2]", "rank 2 ", "150 ms"});
      } catch (const Aborted& error) {  // the other one's deadline was first, and it told why
        expect_says(error.what(), {"[0, 1, 2]", "told by rank ", "rank 2 "});
      }
    }
    world.team().barrier();
    parent.set_timeout(10s);
    expect_works(parent.team({0, 1, 2}), world);  // the attempt left nothing behind
  });
}

TEST(Team, AnAbortEndsTheMakingOfASubTeam) {
  const testing::Shared<std::atomic<bool>> begins;
  run_ranks(2, [&begins](World& world) {
    const Team parent = world.team({0, 1});
    parent.set_timeout(40s);
    const auto begin = std::chrono::steady_clock::now();
    if (world.rank() == 0) {
      begins->store(true);
      try {
        static_cast<void>(parent.team({0, 1}));
        ADD_FAILURE() << "rank 1 did not call, and a team was made";
      } catch (const Aborted& error) {
        expect_says(error.what(), {"[0, 1]", "enough"});
      }
    } else {
      while (!begins->load()) std::this_thread::yield();
      std::this_thread::sleep_for(200ms);  // rank 0 is waiting by now
      parent.abort("enough");
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
    world.team().barrier();
    expect_works(parent.team({1, 0}), world);  // one that was aborted before still makes teams
  });
}

TEST(Team, AnOperationHasOneNumberHoweverOftenItIsNamed) {
  run_ranks(1, [](World& world) {
    const Team& team = world.team();
    const std::uint32_t one = team.register_operation("one");
    const std::uint32_t another = team.register_operation("another");
    EXPECT_NE(one, another);
    EXPECT_EQ(team.register_operation("one"), one);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int call = 0; call < 1000; ++call) EXPECT_EQ(team.register_operation("another"), another);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(team.register_operation("a third one"), another + 1);
  });
}

TEST(Team, NamesOfOperationsAreKeptUpToALimit) {
  run_ranks(1, [](World& world) {
    const Team team = world.team({0});
    std::uint32_t largest = 0;
    for (int i = 0; i < 70'000; ++i) largest = std::max(largest, team.register_operation(std::to_string(i)));
    EXPECT_EQ(largest, 65'536U);
    EXPECT_EQ(team.register_operation("one more"), 0U);
    EXPECT_EQ(team.register_operation("7"), 8U) << "what was named before keeps its number";
  });
}

/// An object as convenience functions cache it: it holds its team, as plans do.
struct Kept {
  Kept(Team kept_team, std::atomic<int>* kept_alive) : team(std::move(kept_team)), alive(kept_alive) { ++*alive; }
  ~Kept() {
    --*alive;
    team.reclaim(std::shared_ptr<void>(alive, [counter = alive](void*) { counter->fetch_add(100); }));
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  Team team;
  std::atomic<int>* alive;
};

TEST(Team, KeepsObjectsByKeyAndLetsThemGoAtItsEnd) {
  run_ranks(2, [](World& world) {
    std::atomic<int> mine{0};
    {
      const Team team = world.team({1, 0});
      const auto make = [&mine](const Team& handle) { return std::make_shared<Kept>(handle, &mine); };
      const Kept* first = team.cached<Kept>("a", make).get();
      EXPECT_EQ(team.cached<Kept>("a", make).get(), first);
      EXPECT_NE(team.cached<Kept>("b", make).get(), first);
      EXPECT_EQ(first->team.id(), team.id());
      EXPECT_EQ(mine, 2);
      expect_works(team, world);
    }
    EXPECT_EQ(mine, 200);  // both are destroyed, and what they passed to `reclaim` is released
  });
}

TEST(Team, ReclaimsWhatItIsHandedLater) {
  run_ranks(1, [](World& world) {
    int released = 0;
    const auto object = [&] { return std::shared_ptr<void>(&released, [&](void*) { ++released; }); };
    {
      const Team team = world.team({0});
      team.reclaim(object());
      EXPECT_EQ(released, 0);
      team.collect();
      EXPECT_EQ(released, 1);
      team.reclaim(object());
      team.reclaim(object());
    }
    EXPECT_EQ(released, 3);
    Team().reclaim(object());
    EXPECT_EQ(released, 4) << "an empty team has no list";
  });
}

class TeamTest : public testing::OnEachDevice {};

TEST_P(TeamTest, AllBlocksOfAllRanksThatShareAGpuRunAtOnce) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [ranks](World& world) {
      const int blocks = world.team().resident_blocks();
      EXPECT_EQ(world.team({world.rank()}).resident_blocks(), blocks);  // the others' teams of one run concurrently
      const int most = world.device().hardware().blocks_at_once;
      if (most == 0) {
        EXPECT_EQ(blocks, 1);  // the host's kernels never wait for peers
        return;
      }
      const int gpus = device_count(DeviceType::cuda);
      const int sharing = (ranks + gpus - 1) / gpus;
      const int left = sharing == 1 ? most : most / 2;  // the other half is for GEMMs
      EXPECT_LE(blocks * sharing, left);
      EXPECT_GT((blocks + 1) * sharing, left);
    });
  }
}

TANDEM_ON_EACH_DEVICE(TeamTest);

}  // namespace
}  // namespace tandem

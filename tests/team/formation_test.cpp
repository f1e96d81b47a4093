// SPDX-License-Identifier: Apache-2.0
#include "team/formation.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <gtest/gtest.h>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/team/team.hpp"

#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "team/another_world.hpp"
#include "team/connections.hpp"
#include "team/mesh.hpp"

namespace tandem {
namespace {

using testing::error_of;
using testing::expect_error;
using testing::expect_says;
using testing::run_ranks;

/// Rank 1 of three has no descriptor left to make a team with. It stays until the others have been told, or leaves.
void expect_to_hear_why(bool stays) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ranks are threads here, and what one lowers all later tests would have";
#elif defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan opens a pipe to see whether an object can be read, and finds no descriptor left for that";
#endif
  run_ranks(3, [stays](World& world) {
    const Team apart = world.team({2, 1, 0});
    const Team pair = world.team({0, 2});
    world.team().barrier();
    const auto make = [&] { static_cast<void>(world.team({0, 1, 2})); };
    if (world.rank() == 1) {
      const rlimit none{3, 3};
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
      EXPECT_THROW(make(), OutOfMemory);
    } else {
      const auto begin = std::chrono::steady_clock::now();
      try {
        make();
        ADD_FAILURE() << "a team was made without rank 1";
      } catch (const Aborted& error) {
        expect_says(error.what(), {"told by rank 1 ", "could not make team", "Too many open files"});
      } catch (const PeerLost& error) {  // the end of its world may be noticed before all have agreed on the team
        EXPECT_FALSE(stays) << error.what();
        EXPECT_EQ(error.rank(), 1) << error.what();
      }
      EXPECT_LT(std::chrono::steady_clock::now() - begin, world.team().timeout() / 2);
      EXPECT_FALSE(world.team().failed());
      pair.barrier();  // else one may leave first, and the other one would report that instead
    }
    if (stays) apart.barrier();
  });
}

TEST(Formation, ARankThatCannotMakeATeamTellsTheOthersWhy) { expect_to_hear_why(true); }

TEST(Formation, ARankThatCannotMakeATeamAndLeavesCostsNoDeadline) {
  for (int round = 0; round < 5; ++round) expect_to_hear_why(false);
}

// Each rank continues as soon as it has been told of the mismatch, so they make the next attempt at different times.
TEST(Formation, AfterAMismatchTheNextAttemptNeedsNoBarrier) {
  run_ranks(3, [](World& world) {
    world.team().set_timeout(std::chrono::seconds(10));
    for (int round = 0; round < 3; ++round) {
      const std::vector<int> listed = world.rank() == 1 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2};
      expect_says(error_of<InvalidArgument>([&] { static_cast<void>(world.team(listed)); }), {"[0, 1]", "[0, 1, 2]"});
      world.team({0, 1, 2}).barrier();
    }
  });
  run_ranks(2, [](World& world) {
    world.team().set_timeout(std::chrono::seconds(10));
    for (int round = 0; round < 3; ++round) {
      const std::vector<int> listed{world.rank(), 1 - world.rank()};
      expect_says(error_of<InvalidArgument>([&] { static_cast<void>(world.team(listed)); }), {"[0, 1]", "[1, 0]"});
      world.team({1, 0}).barrier();
    }
  });
}

// Rank 0 times out before rank 2 sends its list, and rank 1, whose list it had, gives up, too. Their lists must not be
// taken for those of a later attempt, however late these arrive.
TEST(Formation, AListOfATeamThatCameToNothingCountsForNoOther) {
  using std::chrono::milliseconds;
  constexpr milliseconds timeout(1000);
  const auto body = [&](World& world) {
    const Team apart = world.team({2, 0, 1});
    apart.set_timeout(std::chrono::seconds(20));
    const auto make_after = [&](milliseconds delay, std::initializer_list<int> members) {
      apart.barrier();
      std::this_thread::sleep_for(delay);
      return world.team(members);
    };
    constexpr std::array delays{milliseconds(0), timeout / 2, timeout + timeout / 4};
    EXPECT_THROW(static_cast<void>(make_after(delays.at(static_cast<std::size_t>(world.rank())), {0, 1, 2})), Error);
    apart.barrier();
    world.team().set_timeout(std::chrono::seconds(20));
    make_after(world.rank() == 1 ? timeout : milliseconds(0), {0, 1, 2}).barrier();
    make_after(world.rank() == 1 ? timeout : milliseconds(0), {2, 1, 0}).barrier();
    apart.barrier();
  };
  testing::RankOptions options;
  options.env.timeout = timeout;
  run_ranks(3, body, options);
}

// Rank 2 is stopped after it has sent its list: the others have agreed with all, and wait for it. When rank 0 times
// out, rank 1 is told, and its list must not be taken for one of a later team.
TEST(Formation, AListOfATeamThatFailedElsewhereCountsForNoOther) {
  using namespace std::chrono_literals;
  if (const std::string reason = testing::why_no_rank_may_die(); !reason.empty()) GTEST_SKIP() << reason;
  run_ranks(3, [](World& world) {
    const int self = world.rank();
    InitOptions options = testing::another(world, ".formation");
    options.env->timeout = self == 0 ? 2s : 60s;  // of the new team's first call
    world.team().barrier();
    const World second = init(options);
    const Team& parent = second.team();
    const Team awake = world.team({0, 1});
    const auto make = [&](std::initializer_list<int> members) { return parent.team(members); };
    const auto stopped = static_cast<pid_t>(world.team().peer(2).pid);

    parent.set_timeout(5s);
    world.team().barrier();
    if (awake) {
      std::this_thread::sleep_for(100ms);
      if (self == 0) ::kill(stopped, SIGSTOP);
      awake.barrier();
    }
    EXPECT_THROW(static_cast<void>(make({0, 1, 2})), Error);
    if (awake) {
      awake.barrier();
      if (self == 0) ::kill(stopped, SIGCONT);
    }

    parent.set_timeout(20s);
    for (const auto& members : {std::initializer_list<int>{0, 1, 2}, {2, 1, 0}}) {
      world.team().barrier();
      if (self == 1) std::this_thread::sleep_for(500ms);  // longer than a list that differs is waited for
      make(members).barrier();
    }
    world.team().barrier();
  });
}

/// Three ranks in one process. What a test calls for each of them it may call on different threads.
class Trio {
 public:
  Trio() {
    std::array<std::vector<FileDescriptor>, 3> sockets;
    for (auto& of_one : sockets) of_one.resize(sockets.size());
    for (std::size_t a = 0; a < sockets.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        auto [end, other_end] = testing::connection();
        sockets[a][b] = std::move(end);
        sockets[b][a] = std::move(other_end);
      }
    }
    for (int rank = 0; rank < 3; ++rank) {
      meshes_.emplace_back(rank, testing::peers_at(std::move(sockets[static_cast<std::size_t>(rank)])), patience);
      formations_.emplace_back(meshes_.back(), rank, lists);
    }
  }

  [[nodiscard]] std::uint64_t form(int rank, const std::vector<int>& members, const Formation::FirstGone& first_gone) {
    const auto proposed = static_cast<std::uint64_t>(10 * ++attempts_[static_cast<std::size_t>(rank)] + rank);
    return of(rank).form(members, proposed, deadline_, first_gone);
  }
  [[nodiscard]] std::uint64_t form(int rank, const std::vector<int>& members) {
    return form(rank, members, [](std::span<const int>) { return std::nullopt; });
  }
  [[nodiscard]] Formation& of(int rank) { return formations_[static_cast<std::size_t>(rank)]; }

  /// `to`, which awaits the mark, has then received all that `from` had sent before.
  void mark(int from, int to) {
    const auto at = static_cast<std::size_t>(from);
    meshes_[at].send(to, marks, ++marked_.at(at).at(static_cast<std::size_t>(to)), {});
  }
  void await_mark(int to, int from) {
    const auto at = static_cast<std::size_t>(to);
    const std::uint64_t next = ++awaited_.at(at).at(static_cast<std::size_t>(from));
    static_cast<void>(meshes_[at].receive(from, marks, next, deadline_, nullptr));
  }

 private:
  static constexpr std::chrono::milliseconds patience{0};
  static constexpr std::uint64_t lists = 1;
  static constexpr std::uint64_t marks = 2;
  Bootstrap::Clock::time_point deadline_ = Bootstrap::Clock::now() + std::chrono::seconds(20);
  std::deque<Mesh> meshes_;
  std::deque<Formation> formations_;
  std::array<int, 3> attempts_{};
  std::array<std::array<std::uint64_t, 3>, 3> marked_{};   // by the rank that marks, and the one that awaits it
  std::array<std::array<std::uint64_t, 3>, 3> awaited_{};  // by the rank that awaits, and the one that marks
};

bool names(std::span<const int> ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }

// Rank 2 stops after it has sent its list. The others agree with it, give up, and make the next attempt: their next
// lists wait for its next one, so they must not be taken for answers to this one.
TEST(Formation, ARankThatFindsItsAttemptGivenUpGivesUpToo) {
  Trio trio;
  const std::vector<int> members{0, 1, 2};
  const std::vector<int> reversed{2, 1, 0};
  const auto early = [&](int rank) {
    static_cast<void>(trio.form(rank, members));
    trio.mark(rank, 1 - rank);
    trio.await_mark(rank, 1 - rank);
    trio.of(rank).withdraw(Aborted("rank 2 did not come"));
    bool marked = false;
    const std::uint64_t second = trio.form(rank, members, [&](std::span<const int>) {
      if (!std::exchange(marked, true)) trio.mark(rank, 2);
      return std::nullopt;
    });
    return std::array{second, trio.form(rank, reversed)};
  };
  std::deque<std::future<std::array<std::uint64_t, 2>>> others;
  const auto stop = [&](std::span<const int>) {
    if (others.empty()) {
      for (const int rank : {0, 1}) others.push_back(std::async(std::launch::async, early, rank));
      for (const int rank : {0, 1}) trio.await_mark(2, rank);
    }
    return std::nullopt;
  };
  expect_error<Aborted>([&] { static_cast<void>(trio.form(2, members, stop)); },
                        {"told by rank ", "rank 2 did not come"});
  const std::uint64_t second = trio.form(2, members);
  const std::array agreed{second, trio.form(2, reversed)};
  for (auto& other : others) EXPECT_EQ(other.get(), agreed);
}

// Rank 1 gives up the team that it has agreed on; rank 0 does so for that reason, before it has received rank 2's list.
TEST(Formation, ARankThatWaitsForOneHearsThatAnotherHasGivenUp) {
  Trio trio;
  const std::vector<int> members{0, 1, 2};
  const auto gives_up = [&] {
    static_cast<void>(trio.form(1, members));
    trio.of(1).withdraw(Aborted("no descriptor left"));
    trio.mark(1, 0);
    return trio.form(1, members);
  };
  std::future<std::uint64_t> first;
  std::future<std::uint64_t> second;
  const auto follows = [&] {
    const auto stop = [&](std::span<const int>) {
      if (!second.valid()) {
        second = std::async(std::launch::async, gives_up);
        trio.await_mark(0, 1);
      }
      return std::nullopt;
    };
    expect_error<Aborted>([&] { static_cast<void>(trio.form(0, members, stop)); },
                          {"told by rank 1 ", "no descriptor left"});
    trio.mark(0, 2);
    trio.await_mark(0, 2);
    return trio.form(0, members);
  };
  const auto stop = [&](std::span<const int>) {
    if (!first.valid()) {
      first = std::async(std::launch::async, follows);
      trio.await_mark(2, 0);
    }
    return std::nullopt;
  };
  expect_error<Aborted>([&] { static_cast<void>(trio.form(2, members, stop)); },
                        {"told by rank 1 ", "no descriptor left"});
  trio.mark(2, 0);
  const std::uint64_t agreed = trio.form(2, members);
  EXPECT_EQ(first.get(), agreed);
  EXPECT_EQ(second.get(), agreed);
}

// Rank 0 gives up, and tries again, while rank 1, which has received its list, waits for rank 2. It had not come to
// rank 1's list, which answers its next one; so that one, with another id, must replace what rank 1 has received.
TEST(Formation, ARankWhoseListStandsHearsThatAnotherOnesDoesNot) {
  Trio trio;
  const std::vector<int> members{0, 2, 1};
  const auto waits = [&] {
    trio.await_mark(1, 0);
    bool waited = false;
    return trio.form(1, members, [&](std::span<const int>) {
      if (!std::exchange(waited, true)) {
        trio.mark(1, 0);
        trio.await_mark(1, 0);
      }
      return std::nullopt;
    });
  };
  std::future<std::uint64_t> second;
  std::future<std::uint64_t> last;
  const auto give_up = [&](std::span<const int>) -> std::optional<Gone> {
    if (second.valid()) throw Timeout("rank 2 did not come", 2);
    trio.mark(0, 1);
    second = std::async(std::launch::async, waits);
    trio.await_mark(0, 1);
    return std::nullopt;
  };
  EXPECT_THROW(static_cast<void>(trio.form(0, members, give_up)), Timeout);
  const std::uint64_t agreed = trio.form(0, members, [&](std::span<const int>) {
    if (!last.valid()) {
      for (const int rank : {1, 2}) trio.mark(0, rank);
      last = std::async(std::launch::async, [&] {
        trio.await_mark(2, 0);
        return trio.form(2, members);
      });
    }
    return std::nullopt;
  });
  EXPECT_EQ(second.get(), agreed);
  EXPECT_EQ(last.get(), agreed);
}

// Rank 2 stops after it has sent its list. Rank 0 has it when it hears that rank 1 is lost, and goes on without rank 1.
TEST(Formation, WhoIsToldOfALossFindsTheListOfTheNextAttempt) {
  Trio trio;
  const auto first = [&] {
    trio.await_mark(0, 2);
    const auto lost = [](std::span<const int>) { return Gone{1, false}; };
    EXPECT_THROW(static_cast<void>(trio.form(0, {0, 2, 1}, lost)), PeerLost);
    bool marked = false;
    return trio.form(0, {0, 2}, [&](std::span<const int>) {
      if (!std::exchange(marked, true)) trio.mark(0, 2);
      return std::nullopt;
    });
  };
  std::future<std::uint64_t> other;
  const auto stop = [&](std::span<const int>) {
    if (!other.valid()) {
      trio.mark(2, 0);
      other = std::async(std::launch::async, first);
      trio.await_mark(2, 0);
    }
    return std::nullopt;  // the news has not reached this rank yet
  };
  try {
    static_cast<void>(trio.form(2, {0, 2, 1}, stop));
    ADD_FAILURE() << "a team was made with a rank that is lost";
  } catch (const PeerLost& error) {
    EXPECT_EQ(error.rank(), 1);
    expect_says(error.what(), {"told by rank 0 ", "rank 1 ", "is lost"});
  }
  const std::uint64_t agreed = trio.form(2, {0, 2});
  EXPECT_EQ(other.get(), agreed);
}

// Rank 2 knows of rank 1's loss first: its list without rank 1 finds rank 0 in an attempt with rank 1.
TEST(Formation, AListOfAnAttemptWithoutALostRankIsKeptUntilTheLossIsKnown) {
  Trio trio;
  const auto knowing = [&] {
    bool marked = false;
    return trio.form(2, {0, 2}, [&](std::span<const int> ranks) {
      if (names(ranks, 1)) return std::optional<Gone>({1, false});
      if (!std::exchange(marked, true)) trio.mark(2, 0);
      return std::optional<Gone>();
    });
  };
  std::future<std::uint64_t> other;
  const auto stop = [&](std::span<const int> ranks) {
    if (other.valid() && names(ranks, 1)) return std::optional<Gone>({1, false});
    if (!other.valid()) {
      other = std::async(std::launch::async, knowing);
      trio.await_mark(0, 2);
    }
    return std::optional<Gone>();
  };
  EXPECT_THROW(static_cast<void>(trio.form(0, {0, 2, 1}, stop)), PeerLost);
  const std::uint64_t agreed = trio.form(0, {0, 2});
  EXPECT_EQ(other.get(), agreed);
}

// Rank 0 hears of rank 1's loss only after it has given up on the list of rank 2, which differs. Rank 2 must not take
// its next list for an answer to that one.
TEST(Formation, ALossThatARankHearsOfLateCostsBothAnAttempt) {
  Trio trio;
  const auto knowing = [](std::span<const int> ranks) {
    return names(ranks, 1) ? std::optional<Gone>({1, false}) : std::nullopt;
  };
  std::future<std::uint64_t> other = std::async(std::launch::async, [&] {
    expect_error<InvalidArgument>([&] { static_cast<void>(trio.form(2, {0, 2}, knowing)); }, {"[0, 2]", "[0, 2, 1]"});
    return trio.form(2, {0, 2}, knowing);
  });
  expect_error<InvalidArgument>([&] { static_cast<void>(trio.form(0, {0, 2, 1})); }, {"[0, 2]", "[0, 2, 1]"});
  const std::uint64_t agreed = trio.form(0, {0, 2}, knowing);
  EXPECT_EQ(other.get(), agreed);
}

}  // namespace
}  // namespace tandem

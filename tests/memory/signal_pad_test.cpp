// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/signal_pad.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"
#include "support/ranks.hpp"
#include "team/another_world.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::team_sizes;

SymmetricTensor ready(const Team& team, std::int64_t count, std::uint32_t channels = 4) {
  auto tensor = SymmetricTensor::empty(team, {count}, i32, {.channels = channels});
  tensor.rendezvous();
  return tensor;
}

class Pad : public testing::OnEachDevice {
 protected:
  /// Runs `body` on three ranks, with a team of them in another order and its tensor. All are done before any leaves.
  static void on_team_of_three(const std::function<void(World&, const Team&, const SymmetricTensor&)>& body) {
    on(3, [&](World& world) {
      const Team team = world.team({2, 0, 1});
      const SymmetricTensor tensor = ready(team, 1);
      world.team().barrier();  // not the team's own, whose failure would end it on ranks that are still in it
      body(world, team, tensor);
      world.team().barrier();
    });
  }
};

TEST_P(Pad, CountsOfSeveralChannelsAreMadeAtOnceAndReleasedOneByOne) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      constexpr int counted = 20;  // for three ranks or fewer in one device call: `max_signals` is 64
      auto inbox = ready(team, counted * team.size(), 1 + counted);
      const auto outbox = ready(team, counted);
      const auto seen = ready(team, counted * team.size());
      std::vector<int> others;
      for (int step = 1; step < team.size(); ++step) others.push_back((team.rank() + step) % team.size());
      const Stream stream(world.device());
      const auto element = [](const TensorView& view, int i) { return view.data_as<std::int32_t>() + i; };
      for (int round = 0; round < 3; ++round) {
        std::vector<std::int32_t> sent(counted);
        std::iota(sent.begin(), sent.end(), 1000 * round + 100 * team.rank());
        world.device().upload(outbox.local().data(), sent.data(), outbox.local().bytes());
        inbox.signal_pad().put_signals(stream, others, 0);  // the credit
        inbox.signal_pad().wait_and_count(stream, others, 0, 1, counted);
        for (int step = 0; step < counted; ++step) {
          const int i = (step * 7 + round) % counted;  // in any order
          for (const int rank : others) {
            world.device().copy(stream, {.dst = element(inbox.remote(rank), counted * team.rank() + i),
                                         .src = element(outbox.local(), i),
                                         .bytes = sizeof(std::int32_t),
                                         .path = Path::link});
          }
          inbox.signal_pad().put_counted(stream, others, static_cast<std::uint32_t>(1 + i));
        }
        for (int i = 0; i < counted; ++i) {
          inbox.signal_pad().wait_signals(stream, others, static_cast<std::uint32_t>(1 + i));
          for (const int rank : others) {
            const int at = counted * rank + i;
            world.device().copy(
                stream,
                {.dst = element(seen.local(), at), .src = element(inbox.local(), at), .bytes = sizeof(std::int32_t)});
          }
        }
        team.synchronize(stream);
        std::vector<std::int32_t> got(static_cast<std::size_t>(counted * team.size()));
        world.device().download(got.data(), seen.local().data(), seen.local().bytes());
        for (const int rank : others) {
          for (int i = 0; i < counted; ++i) {
            EXPECT_EQ(got[static_cast<std::size_t>(counted * rank + i)], 1000 * round + 100 * rank + i);
          }
        }
      }
      team.barrier();
    });
  }
}

TEST_P(Pad, ASignalFollowsItsData) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      constexpr std::int64_t count = 5'000;
      auto inbox = ready(team, count);
      auto outbox = ready(team, count);
      const Stream stream(world.device());
      const int next = (team.rank() + 1) % team.size();
      const int previous = (team.rank() + team.size() - 1) % team.size();
      std::mt19937 random(static_cast<unsigned>(testing::seed()) + static_cast<unsigned>(team.rank()));
      for (int round = 0; round < 6; ++round) {
        const std::vector<std::int32_t> sent(count, 100 * round + team.rank());
        world.device().upload(outbox.local().data(), sent.data(), outbox.local().bytes());
        const auto delay = std::chrono::microseconds(random() % 2'000);
        world.device().launch(stream, [delay] { std::this_thread::sleep_for(delay); });
        const bool counted = round % 3 == 2;
        if (counted) {
          inbox.signal_pad().wait_and_count(stream, std::span(&next, 1), 1, 0);
        } else if (round > 0) {
          inbox.signal_pad().wait_signal(stream, next, 1);  // the credit
        }
        const Copy copy{.dst = inbox.remote(next).data(),
                        .src = outbox.local().data(),
                        .bytes = outbox.local().bytes(),
                        .path = Path::link};
        if (counted) {
          world.device().copy(stream, copy);
          inbox.signal_pad().put_counted(stream, std::span(&next, 1), 0);
        } else if (round % 3 == 0) {
          world.device().copy(stream, copy);
          inbox.signal_pad().put_signal(stream, next, 0);
        } else {
          const Push push{.copy = copy, .put = inbox.signal_pad().signal_to(next, 0)};
          world.device().push(stream, std::span(&push, 1));
        }
        inbox.signal_pad().wait_signal(stream, previous, 0);
        std::vector<std::int32_t> got(count);
        team.synchronize(stream);
        world.device().download(got.data(), inbox.local().data(), inbox.local().bytes());
        EXPECT_EQ(got, std::vector<std::int32_t>(count, 100 * round + previous));
        if (round < 5) inbox.signal_pad().put_signal(stream, previous, 1);
      }
      team.synchronize(stream);
    });
  }
}

TEST_P(Pad, ABarrierHoldsEveryRankUntilTheLast) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      auto flags = ready(team, team.size());
      const Stream stream(world.device());
      for (std::int32_t round = 1; round <= 3; ++round) {
        // Every rank writes the round to its element of all flags, one rank late; all must be there after the barrier.
        if (team.rank() == round % team.size()) {
          world.device().launch(stream, [] { std::this_thread::sleep_for(5ms); });
        }
        auto mine = ready(team, 1);
        world.device().upload(mine.local().data(), &round, sizeof(round));
        for (int rank = 0; rank < team.size(); ++rank) {
          world.device().copy(
              stream,
              {.dst = flags.remote(rank).narrow(0, team.rank(), 1).data(), .src = mine.local().data(), .bytes = 4});
        }
        flags.signal_pad().barrier(stream, 3);
        team.synchronize(stream);
        std::vector<std::int32_t> seen(static_cast<std::size_t>(team.size()));
        world.device().download(seen.data(), flags.local().data(), seen.size() * 4);
        EXPECT_EQ(seen, std::vector<std::int32_t>(seen.size(), round));
        flags.signal_pad().barrier(stream, 3);
        team.synchronize(stream);
      }
    });
  }
}

TEST_P(Pad, SignalsAreCountedAndChannelsAreApart) {
  on(2, [](World& world) {
    const Team team = world.team({0, 1});
    auto tensor = ready(team, 1);
    const SignalPad& pad = tensor.signal_pad();
    const Stream stream(world.device());
    const int other = 1 - team.rank();
    for (int i = 0; i < 5; ++i) pad.put_signal(stream, other, 2);
    for (int i = 0; i < 3; ++i) pad.put_signal(stream, other, 1);
    pad.wait_signal(stream, other, 1, 2);  // leaves one, which must not pass for one of channel 2
    pad.wait_signal(stream, other, 2, 3);
    pad.wait_signal(stream, other, 2, 2);
    team.synchronize(stream);
    team.barrier();
    team.set_timeout(50ms);
    if (team.rank() == 0) {
      pad.wait_signal(stream, other, 2);
      EXPECT_THROW(team.synchronize(stream), Timeout);
    }
    world.team().barrier();  // no rank leaves while another one waits
  });
}

/// Queues a wait for a signal on channel 3 from the team's rank 2, which puts none.
void wait_in_vain(const Team& team, const SignalPad& pad, StreamRef stream) {
  team.set_timeout(80ms);
  pad.wait_signal(stream, 2, 3);
}

TEST_P(Pad, AMissedDeadlineNamesWhoWasWaitedFor) {
  on_team_of_three([](World& world, const Team& team, const SymmetricTensor& tensor) {
    if (world.rank() == 0) {
      const Stream stream(world.device());
      wait_in_vain(team, tensor.signal_pad(), stream);
      try {
        team.synchronize(stream);
        ADD_FAILURE() << "nobody signaled, and the wait ended well";
      } catch (const Timeout& error) {
        EXPECT_EQ(error.peer(), 1);
        EXPECT_NE(std::string(error.what()).find("channel 3"), std::string::npos) << error.what();
      }
      EXPECT_THROW(team.check(), Timeout);  // failures are sticky
      EXPECT_NO_THROW(world.team().check());
    } else {
      const auto end = std::chrono::steady_clock::now() + 10s;
      while (!team.failed() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(5ms);
      EXPECT_THROW(team.check(), Aborted);  // the others are told
    }
  });
}

// What a rank sent before it ended its world stays valid, also for waits that are queued later; a wait for more fails
// at once, not at the deadline of a minute.
TEST_P(Pad, OfARankThatEndsItsWorldTheSignalsCountAndNoMoreAreWaitedFor) {
  on(3, [](World& world) {
    std::mt19937_64 random(testing::key(testing::seed(), {static_cast<std::uint64_t>(world.rank())}));
    for (int round = 0; round < 6; ++round) {
      const int leaver = round % world.size();
      InitOptions options = testing::another(world, ".world" + std::to_string(round));
      options.device = world.device().id();
      std::optional<World> second = init(options);
      std::optional<SymmetricTensor> tensor = ready(second->team(), 1);
      const auto delay = std::chrono::microseconds(random() % 20'000);
      std::this_thread::sleep_for(delay);
      if (world.rank() == leaver) {
        const Stream stream(second->device());
        for (int peer = 0; peer < world.size(); ++peer) {
          if (peer == leaver) continue;
          for (int i = 0; i < 5; ++i) tensor->signal_pad().put_signal(stream, peer, 2);
        }
        tensor.reset();
        second.reset();
      } else {
        const Team& team = second->team();
        const SignalPad& pad = tensor->signal_pad();
        const Stream stream(second->device());
        const int other = world.size() - leaver - world.rank();
        pad.wait_signal(stream, leaver, 2, 5);
        pad.exchange_signals(stream, std::span(&other, 1), 1);
        team.synchronize(stream);
        world.team({std::min(other, world.rank()), std::max(other, world.rank())}).barrier();  // neither has failed
        pad.wait_signal(stream, leaver, 2);
        const auto begin = std::chrono::steady_clock::now();
        testing::expect_error<PeerLost>([&] { team.synchronize(stream); },
                                        {"rank " + std::to_string(leaver), "has ended its world"});
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
      }
      world.team().barrier();
    }
  });
}

// Rank 0 waits for rank 1, which waits for rank 0, when an exception ends rank 0's world.
TEST_P(Pad, OfARankThatAnExceptionEndsThePeersHearAtOnce) {
  struct Leaves {};
  on(3, [](World& world) {
    InitOptions options = testing::another(world, ".unwound");
    options.device = world.device().id();
    options.env->timeout = 40s;
    const auto begin = std::chrono::steady_clock::now();
    try {
      const World second = init(options);
      const Team pair = second.team({1, 0});
      const SymmetricTensor tensor = ready(second.team(), 1);
      const Stream stream(second.device());
      tensor.signal_pad().wait_signal(stream, (world.rank() + 1) % world.size(), 2);
      if (world.rank() == 0) {
        world.team().barrier();
        throw Leaves{};
      }
      world.team().barrier();
      try {
        second.team().synchronize(stream);
        ADD_FAILURE() << "nobody signaled, and the wait ended well";
      } catch (const PeerLost& error) {
        EXPECT_EQ(error.rank(), 0);
        testing::expect_says(error.what(), {"rank 0 ", "an exception ends its world"});
      }
      if (pair) {
        EXPECT_THROW(pair.barrier(), PeerLost);
      }
    } catch (const Leaves&) {
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
    world.team().barrier();
  });
}

// Rank 0 lets go of its world while its stream waits for rank 1, which signals later.
TEST_P(Pad, AWorldThatEndsWellLetsItsQueuedWaitsEndWell) {
  on(2, [](World& world) {
    InitOptions options = testing::another(world, ".ended");
    options.device = world.device().id();
    std::optional<World> second = init(options);
    std::optional<SymmetricTensor> tensor = ready(second->team(), 1);
    const int other = 1 - world.rank();
    const Stream stream(second->device());
    if (world.rank() == 0) {
      tensor->signal_pad().wait_signal(stream, other, 1);
      tensor->signal_pad().put_signal(stream, other, 2);
      world.team().barrier();
      tensor.reset();
      second.reset();
    } else {
      world.team().barrier();
      std::this_thread::sleep_for(100ms);
      tensor->signal_pad().put_signal(stream, other, 1);
      tensor->signal_pad().wait_signal(stream, other, 2);
      EXPECT_NO_THROW(second->team().synchronize(stream));
    }
    world.team().barrier();
  });
}

TEST_P(Pad, AFailureElsewhereIsToldWithTheWaitThatItEnded) {
  on_team_of_three([](World& world, const Team& team, const SymmetricTensor& tensor) {
    if (world.rank() == 0) {
      const Stream stream(world.device());
      tensor.signal_pad().wait_signal(stream, 2, 3);
      try {
        team.synchronize(stream);
        ADD_FAILURE() << "nobody signaled, and the wait ended well";
      } catch (const Aborted& error) {
        for (const char* part : {"on purpose", "had waited", "rank 1", "0 of 1 signals on channel 3"}) {
          EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " in: " << error.what();
        }
      }
    } else if (world.rank() == 2) {
      std::this_thread::sleep_for(50ms);
      team.abort("on purpose");
    }
  });
}

TEST_P(Pad, NothingCountsAfterAPeersDeadlineEvenIfItDidNotSay) {
  on_team_of_three([](World& world, const Team& team, const SymmetricTensor& tensor) {
    if (world.rank() == 0) {
      const Stream stream(world.device());
      wait_in_vain(team, tensor.signal_pad(), stream);
      stream.synchronize();  // its stream has continued, and it has told nobody
    }
    world.team().barrier();
    if (world.rank() != 0) {
      EXPECT_TRUE(team.failed());
      try {
        team.check();
        ADD_FAILURE() << "what a peer's stream may have overwritten was counted";
      } catch (const Aborted& error) {
        EXPECT_NE(std::string(error.what()).find("channel 3"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("says rank 0"), std::string::npos) << error.what();
      }
    }
  });
}

TEST_P(Pad, AnAbortReleasesAWaitSoonAndFromAnyThread) {
  on(2, [](World& world) {
    const Team team = world.team({0, 1});
    auto tensor = ready(team, 1);
    const Stream stream(world.device());
    tensor.signal_pad().wait_signal(stream, 1 - team.rank(), 0);
    const auto begin = std::chrono::steady_clock::now();
    std::thread aborter;
    if (team.rank() == 0) aborter = std::thread([&] { team.abort("enough of this"); });
    try {
      team.synchronize(stream);
      ADD_FAILURE() << "an aborted wait ended well";
    } catch (const Aborted& error) {
      EXPECT_NE(std::string(error.what()).find("enough of this"), std::string::npos) << error.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
    if (aborter.joinable()) aborter.join();
    world.team().barrier();
  });
}

TEST_P(Pad, RanksAndChannelsAreCheckedBeforeAnythingIsWritten) {
  on(2, [](World& world) {
    auto tensor = ready(world.team(), 1, 4);
    const Stream stream(world.device());
    const SignalPad& pad = tensor.signal_pad();
    for (const int rank : {-1, 2, 100}) {
      EXPECT_THROW(pad.put_signal(stream, rank, 0), InvalidArgument);
      EXPECT_THROW(static_cast<void>(pad.signal_to(rank, 0)), InvalidArgument);
    }
    EXPECT_THROW(static_cast<void>(pad.signal_to(0, 4)), InvalidArgument);
    EXPECT_THROW(pad.wait_signal(stream, 0, 4), InvalidArgument);
    for (const std::uint32_t count : {0U, 0x80000000U}) {
      testing::expect_error<InvalidArgument>([&] { pad.wait_signal(stream, 0, 0, count); },
                                             {"a wait for " + std::to_string(count), "1 to 2147483647"});
    }
    const int twice[] = {0, 0};
    const std::function<void()> calls[] = {
        [&] { pad.put_signals(stream, twice, 0); }, [&] { pad.wait_signals(stream, twice, 0); },
        [&] { pad.exchange_signals(stream, twice, 0); }, [&] { pad.wait_and_count(stream, twice, 0, 1); },
        [&] { pad.put_counted(stream, twice, 0); }};
    for (const auto& call : calls) testing::expect_error<InvalidArgument>(call, {"rank 0", "twice"});
    const int peer = 1 - world.rank();
    for (const auto& ranks : {std::vector{world.rank()}, std::vector{peer, world.rank()}}) {
      testing::expect_error<InvalidArgument>([&] { pad.exchange_signals(stream, ranks, 0); },
                                             {"rank " + std::to_string(world.rank()) + " of 2", "itself", "its peers"});
    }
    EXPECT_NO_THROW(pad.exchange_signals(stream, {}, 0));
    EXPECT_THROW(pad.wait_and_count(stream, std::span(&peer, 1), 0, 4), InvalidArgument);
    EXPECT_THROW(pad.wait_and_count(stream, std::span(&peer, 1), 4, 0), InvalidArgument);
    for (const std::uint32_t channels : {0U, 5U, 65U}) {
      EXPECT_THROW(pad.wait_and_count(stream, std::span(&peer, 1), 0, 0, channels), InvalidArgument) << channels;
    }
    EXPECT_THROW(pad.put_counted(stream, std::span(&peer, 1), 4), InvalidArgument);
    EXPECT_THROW(pad.put_signals(stream, std::array{peer, peer}, 0), InvalidArgument);
    EXPECT_THROW(pad.barrier(stream, 99), InvalidArgument);
    EXPECT_THROW(static_cast<void>(SymmetricMemory::allocate(world.team(), 1, {.channels = 0})), InvalidArgument);
    EXPECT_THROW(static_cast<void>(SymmetricMemory::allocate(world.team(), 1, {.channels = 5000})), InvalidArgument);
    world.team().barrier();
  });
}

TEST_P(Pad, ARankWithoutPeersIsToldOfAWrongChannelToo) {
  on(1, [](World& world) {
    auto tensor = ready(world.team(), 1, 4);
    const Stream stream(world.device());
    const SignalPad& pad = tensor.signal_pad();
    EXPECT_NO_THROW(pad.barrier(stream, 3));
    EXPECT_THROW(pad.barrier(stream, 4), InvalidArgument);
    EXPECT_THROW(pad.put_signals(stream, {}, 4), InvalidArgument);
    EXPECT_THROW(pad.wait_signals(stream, {}, 4), InvalidArgument);
    world.team().synchronize(stream);
  });
}

TEST_P(Pad, APadThatWasNeverMadeSaysSo) {
  on(1, [](World& world) {
    const Stream stream(world.device());
    const SignalPad pad;
    const auto refused = [](const auto& call) { testing::expect_error<InvalidArgument>(call, {"never made"}); };
    refused([&] { pad.barrier(stream, 0); });
    refused([&] { pad.put_signal(stream, 0, 0); });
    refused([&] { pad.named(0).wait_signals(stream, {}, 0); });
  });
}

TANDEM_ON_EACH_DEVICE(Pad);

}  // namespace
}  // namespace tandem

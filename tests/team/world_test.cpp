// SPDX-License-Identifier: Apache-2.0
#include "tandem/team/world.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <pthread.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/shared.hpp"
#include "support/temporary_folder.hpp"
#include "team/another_world.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::another;
using testing::expect_says;
using testing::RankOptions;
using testing::refusal;
using testing::run_ranks;

TEST(World, DescribesItself) {
  run_ranks(2, [](World& world) {
    expect_says(world.describe(), {"world of 2 ranks", "started by tests", "rank 1", "device host", "60000 ms"});
  });
}

TEST(World, ASecondInitIsAnErrorAndNoHang) {
  run_ranks(3, [](World& world) {
    InitOptions same = another(world, "");
    expect_says(refusal<InvalidArgument>(same), {"init was called while a world", world.launch().job, "let go"});
    world.team().barrier();
  });
}

TEST(World, OneThatWasMovedFromSaysSo) {
  run_ranks(1, [](World& world) {
    World other = init(another(world, ".moved"));
    const World moved = std::move(other);
    EXPECT_EQ(moved.size(), 1);
    // NOLINTBEGIN(bugprone-use-after-move)
    testing::expect_error<InvalidArgument>([&] { static_cast<void>(other.rank()); }, {"moved from"});
    testing::expect_error<InvalidArgument>([&] { static_cast<void>(other.team()); }, {"moved from"});
    testing::expect_error<InvalidArgument>([&] { static_cast<void>(other.gone()); }, {"moved from"});
    testing::expect_error<InvalidArgument>([&] { static_cast<void>(other.describe()); }, {"moved from"});
    // NOLINTEND(bugprone-use-after-move)
  });
}

TEST(World, KnowsWhoIsGone) {
  run_ranks(3, [](World& world) {
    std::optional<World> second = init(another(world, ".gone"));
    EXPECT_TRUE(second->gone().empty());
    second->team().barrier();
    if (world.rank() != 1) second.reset();
    world.team().barrier();
    if (world.rank() == 1) {
      EXPECT_THROW(second->team().barrier(), PeerLost);
      while (second->gone().size() < 2) std::this_thread::yield();
      EXPECT_EQ(second->gone(), (std::vector<int>{0, 2}));
    }
  });
}

TEST(World, RanksEmulateOneLinkOrNone) {
  run_ranks(2, [](World& world) {
    InitOptions options = another(world, ".link");
    if (world.rank() == 1) options.env->link = parse_link("20us,1GB/s");
    expect_says(refusal<InvalidArgument>(options),
                {"rank " + std::to_string(world.rank()) + " emulates the link ", "20us,1GB/s", "none", "TANDEM_LINK"});
    world.team().barrier();
  });
}

TEST(World, RanksCheckAlike) {
  run_ranks(2, [](World& world) {
    InitOptions options = another(world, ".check");
    if (world.rank() == 1) options.env->check = RunCheck::runs;
    expect_says(refusal<InvalidArgument>(options), {"rank " + std::to_string(world.rank()) + " checks ", "none", "runs",
                                                    "the same on all ranks (TANDEM_CHECK)"});
    world.team().barrier();
  });
}

TEST(World, AProcessMayStartAgain) {
  run_ranks(4, [](World& world) {
    for (int round = 0; round < 20; ++round) {
      const World again = init(another(world, ".again"));  // the same name each time
      EXPECT_EQ(again.size(), 4);
      again.team().agree("round", std::to_string(round));
      if (world.rank() == round % 4) std::this_thread::sleep_for(1ms);
    }
    world.team().barrier();
  });
}

TEST(World, LivesUntilItsLastTeamIsGone) {
  run_ranks(2, [](World& world) {
    Team team;
    {
      const World second = init(another(world, ".second"));
      team = second.team({1, 0});
    }
    team.barrier();
    expect_says(refusal<InvalidArgument>(another(world, ".second")), {"let go of it and of its teams"});
    world.team().barrier();
    team = Team();
    init(another(world, ".second")).team().barrier();
  });
}

TEST(World, TwoWorldsAtOnceAreTwoWorlds) {
  run_ranks(2, [](World& world) {
    const World second = init(another(world, ".second"));
    world.team().barrier();
    second.team().abort("only this one");
    EXPECT_THROW(second.team().check(), Aborted);
    world.team().barrier();
    world.team().check();
  });
}

TEST(World, RanksThatContradictEachOtherAreNamedOnAll) {
  run_ranks(3, [](World& world) {
    InitOptions options = another(world, ".sizes");
    if (world.rank() == 2) options.launch->world_size = options.launch->local_size = 5;
    world.team().barrier();  // rank 0 answers ranks that come late, but only for a while
    expect_says(refusal<InvalidArgument>(options), {"rank 2 ", "5 ranks", "3"});
    world.team().barrier();

#if defined(__SANITIZE_THREAD__)
    return;  // ranks are threads here, and a process itself refuses a second world of the same rank
#endif
    options = another(world, ".twice");
    if (world.rank() == 2) options.launch->rank = 1;
    world.team().barrier();
    expect_says(refusal<InvalidArgument>(options), {"rank 1 ", "is that rank already"});
    world.team().barrier();
  });
}

TEST(World, ARankThatDoesNotComeIsNamedOnAll) {
  run_ranks(4, [](World& world) {
    InitOptions options = another(world, ".late");
    options.env->timeout = 2s;
    world.team().barrier();
    if (world.rank() != 2) {
      expect_says(refusal<Timeout>(options), {"rank 2 of 4 did not come", "2 s", "TANDEM_TIMEOUT"});
    }
    world.team().barrier();
  });
  run_ranks(3, [](World& world) {
    InitOptions options = another(world, ".host");
    options.env->timeout = 300ms;
    if (world.rank() != 0) expect_says(refusal<Timeout>(options), {"rank 0 of 3 did not come"});
    world.team().barrier();
  });
}

TEST(World, ADeviceThatOneRankCannotUseIsToldToAll) {
  if (device_count(DeviceType::cuda) > 0) GTEST_SKIP() << "this machine has a GPU";
  run_ranks(3, [](World& world) {
    InitOptions options = another(world, ".device");
    if (world.rank() == 1) options.device = DeviceId{DeviceType::cuda, 0};
    const std::string text = refusal<Unsupported>(options);
    expect_says(text, {why_no_device(DeviceType::cuda)});
    if (world.rank() != 1) expect_says(text, {"rank 1 ", "has no device"});
    world.team().barrier();
  });
}

TEST(World, AFileThatOneRankCannotOpenIsToldToAll) {
  run_ranks(3, [](World& world) {
    for (const bool log : {true, false}) {
      InitOptions options = another(world, ".file");
      options.env->timeout = 20s;
      std::string& path = log ? options.env->log_file : options.env->trace;
      if (world.rank() == 1) path = "/proc/no/such/folder/file";
      const auto before = std::chrono::steady_clock::now();
      const std::string text = refusal<InvalidArgument>(options);
      EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
      expect_says(text, {"/proc/no/such/folder/file"});
      if (world.rank() != 1) expect_says(text, {"rank 1 ", log ? "cannot open its log" : "cannot open its trace"});
      world.team().barrier();
    }
  });
}

TEST(World, ARankWithoutDescriptorsSaysSoAtOnce) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under ThreadSanitizer ranks are threads, and what one lowers the others would have";
#elif defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan opens a pipe to see whether an object can be read, and finds no descriptor left for that";
#endif
  // Tandem raises the soft limit up to the hard one, so the hard one is lowered, too. Only root can raise that again:
  // so each try has processes of its own.
  const testing::Shared<std::atomic<int>> refusals;
  constexpr rlim_t tries = 16;
  for (rlim_t left = 0; left < tries; ++left) {
    const auto body = [&refusals, left](World& world) {
      InitOptions options = another(world, ".full");
      options.env->timeout = 20s;
      if (world.rank() == 0) {
        rlim_t limit = 0;  // with `left` unused descriptor numbers below it
        for (rlim_t unused = 0; unused < left || ::fcntl(static_cast<int>(limit), F_GETFD) >= 0; ++limit) {
          if (::fcntl(static_cast<int>(limit), F_GETFD) < 0) ++unused;
        }
        const rlimit low{limit, limit};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
      }
      const auto before = std::chrono::steady_clock::now();
      std::string failure;
      try {
        const World another_world = init(options);
      } catch (const std::exception& error) {
        failure = error.what();
      }
      if (world.rank() == 0 && !failure.empty()) {
        EXPECT_LT(std::chrono::steady_clock::now() - before, 10s) << failure;
        expect_says(failure, {"Too many open files"});
        ++*refusals;
      }
      if (world.rank() == 0) {
        ::kill(static_cast<pid_t>(world.team().peer(1).pid), SIGKILL);  // this rank may have been unable to tell it
      } else {
        world.team().barrier();
      }
    };
    run_ranks(2, body, {.may_die = {1}});
  }
  EXPECT_GT(*refusals, 2);
  EXPECT_LT(*refusals, static_cast<int>(tries));
}

TEST(World, AThreadThatCannotBeMadeIsADeviceErrorAndLeavesTheSignalsAlone) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under ThreadSanitizer ranks are threads, and the stack's size is that of all";
#endif
  run_ranks(2, [](World& world) {
    pthread_attr_t usual;
    ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
    pthread_attr_t endless;  // a stack too large for any address space
    ASSERT_EQ(::pthread_attr_init(&endless), 0);
    ASSERT_EQ(::pthread_attr_setstacksize(&endless, std::size_t{1} << 60U), 0);
    ASSERT_EQ(::pthread_setattr_default_np(&endless), 0);
    const std::string text = refusal<DeviceError>(another(world, ".thread"));
    expect_says(text, {"rank " + std::to_string(world.rank()) + " could not start the thread"});
    sigset_t blocked;
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
    EXPECT_EQ(::sigismember(&blocked, SIGTERM), 0);
    ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
    world.team().barrier();
  });
}

TEST(World, RefusesALinkWhereTheDeviceIsNoHost) {
  InitOptions options{.launch = Launch{}, .env = Env{}, .device = DeviceId{DeviceType::cuda, 0}};
  options.launch->job = "link";
  options.env->link = LinkOptions{20us, 1e9};
  expect_says(refusal<InvalidArgument>(options), {"TANDEM_LINK", "rank 0", "cuda", "host"});
}

TEST(World, RefusesAnEnvThatTheEnvironmentCouldNotGive) {
  InitOptions options{.launch = Launch{}, .env = Env{}, .device = {}};
  options.launch->job = "env." + std::to_string(::getpid());
  const auto refused = [&](const std::function<void(Env&)>& change) {
    options.env = Env{};
    change(*options.env);
    return refusal<InvalidArgument>(options);
  };
  for (const auto timeout : {std::chrono::milliseconds::max(), std::chrono::milliseconds(-1), 0ms}) {
    expect_says(refused([&](Env& env) { env.timeout = timeout; }),
                {"TANDEM_TIMEOUT", "'" + std::to_string(timeout.count()) + "ms'", "1ms to 365 days"});
  }
  expect_says(refused([](Env& env) { env.device = static_cast<DeviceChoice>(9); }),
              {"TANDEM_DEVICE", "'9'", "auto, host, cuda"});
  expect_says(refused([](Env& env) { env.check = static_cast<RunCheck>(9); }), {"TANDEM_CHECK", "'9'", "none, runs"});
  expect_says(refused([](Env& env) { env.gemm = static_cast<GemmChoice>(9); }), {"TANDEM_GEMM", "'9'", "onednn"});
  expect_says(refused([](Env& env) { env.log = static_cast<LogLevel>(9); }), {"TANDEM_LOG", "'9'", "trace"});
  for (const LinkOptions link : {LinkOptions{-1us, 1e9}, LinkOptions{1us, 0}}) {
    expect_says(refused([&](Env& env) { env.link = link; }), {"TANDEM_LINK", "LATENCY,BANDWIDTH"});
  }
}

TEST(World, RefusesWhatNoLauncherCanMean) {
  InitOptions options{.launch = Launch{}, .env = Env{}, .device = DeviceId{DeviceType::host, 0}};
  options.launch->job = "refused";
  options.launch->rank = 2;
  expect_says(refusal<InvalidArgument>(options), {"rank 2", "world of 1"});
  options.launch->rank = 0;
  options.launch->world_size = 4;
  options.launch->nodes = 2;
  options.launch->launcher = "srun";
  expect_says(refusal<Unsupported>(options), {"4 ranks on 2 nodes", "srun", "one node"});
  options.launch->nodes = 0;
  expect_says(refusal<InvalidArgument>(options), {"a launch on 0 nodes", "rank 0", "allowed: 1"});
  options.launch->nodes = 1;
  expect_says(refusal<InvalidArgument>(options), {"local rank 0 of 1", "rank 0 of 4", "as many local ranks as ranks"});
  options.launch->local_size = 4;
  for (const int local_rank : {-1, 4}) {
    options.launch->local_rank = local_rank;
    expect_says(refusal<InvalidArgument>(options), {"local rank " + std::to_string(local_rank) + " of 4", "rank 0"});
  }
  options.launch = Launch{};
  expect_says(refusal<InvalidArgument>(options), {"without a job's name", "rank 0", "no other job"});
}

// Nothing else ends the wait of a rank that waits for its device.
TEST(World, ALogThatNobodyReadsHoldsUpNoNewsOfALostRank) {
  struct Leaves {};
  run_ranks(2, [](World& world) {
    InitOptions options = another(world, ".unread");
    if (world.rank() == 1) {
      try {
        const World leaving = init(options);
        world.team().barrier();
        throw Leaves{};
      } catch (const Leaves&) {
      }
    } else {
      const testing::TemporaryFolder folder;
      options.env->log = LogLevel::info;
      options.env->log_file = folder.at("log");
      ASSERT_EQ(::mkfifo(options.env->log_file.c_str(), 0600), 0);
      const auto log =
          FileDescriptor::from_native_handle(::open(options.env->log_file.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
      ASSERT_TRUE(log);
      const World other = init(options);
      char byte = 0;
      while (::write(log.get(), &byte, 1) == 1) {
      }
      world.team().barrier();
      const auto deadline = std::chrono::steady_clock::now() + 20s;
      while (!other.team().failed() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
      EXPECT_TRUE(other.team().failed());
      while (::read(log.get(), &byte, 1) == 1) {
      }
    }
    world.team().barrier();
  });
}

TEST(World, ARankThatEndsWellLeavesTheOthersAlone) {
  run_ranks(3, [](World& world) {
    const Team rest = world.team({1, 2});
    std::optional<World> second = init(another(world, ".second"));
    second->team().barrier();
    if (world.rank() == 0) {
      second.reset();
    } else {
      const Team pair = second->team({1, 2});
      std::this_thread::sleep_for(20ms);
      pair.barrier();
      EXPECT_FALSE(second->team().failed());
      pair.barrier();
      try {
        second->team().barrier();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const PeerLost& error) {
        EXPECT_EQ(error.rank(), 0);
        expect_says(error.what(), {"has ended its world", "barrier"});
      }
      pair.barrier();
    }
    world.team().barrier();
  });
}

TEST(World, OfRanksThatAreGoneTheFirstIsNamed) {
  run_ranks(3, [](World& world) {
    std::optional<World> second = init(another(world, ".second"));
    Team pair = second->team({0, 1});
    second->team().barrier();
    if (world.rank() == 2) {
      second.reset();
    } else {
      EXPECT_THROW(while (true) second->team().barrier(), PeerLost);
    }
    world.team().barrier();
    if (world.rank() == 0) {
      pair = Team();
      second.reset();
    }
    if (world.rank() == 1) {
      EXPECT_THROW(while (true) pair.barrier(), PeerLost);
      try {
        static_cast<void>(second->team({0, 1, 2}));
        ADD_FAILURE() << "nothing was thrown";
      } catch (const PeerLost& error) {
        EXPECT_EQ(error.rank(), 2) << error.what();
      }
    }
    world.team().barrier();
  });
}

}  // namespace
}  // namespace tandem

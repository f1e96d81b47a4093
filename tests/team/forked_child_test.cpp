// SPDX-License-Identifier: Apache-2.0
// A process forked by a rank has copies of everything that the rank has, but none of its threads.
#include <atomic>
#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tandem/base/error.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/world.hpp"

#include "support/ranks.hpp"
#include "team/another_world.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::another;
using testing::run_ranks;

/// Forks a child that runs `body` and exits; the destructor kills it if it has not been seen to exit.
class Child {
 public:
  template <typename Body> explicit Child(const Body& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    body();
    ::_exit(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0 || ended_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  /// Waits for its exit code; nullopt if it does not exit within `limit`, or was killed.
  [[nodiscard]] std::optional<int> exit_code(std::chrono::milliseconds limit) {
    int status = 0;
    for (const auto until = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < until;) {
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        ended_ = true;
        return WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
      }
      std::this_thread::sleep_for(1ms);
    }
    return std::nullopt;
  }

 private:
  pid_t pid_;
  bool ended_ = false;
};

/// The CPU time that all threads of this process have used.
std::chrono::microseconds processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

class ForkedChild : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_no_rank_may_die(); !why.empty()) {
      GTEST_SKIP() << "a forked child has the thread of one rank: " << why;
    }
  }
};

// The child keeps the peer's socket and pidfd open: closing them must still stop epoll from reporting the peer's end.
TEST_F(ForkedChild, APeerThatHasLeftTakesNoTime) {
  run_ranks(2, [](World& world) {
    std::optional<World> other(init(another(world, ".other")));
    std::optional<Child> child;
    if (world.rank() == 0) child.emplace([] { ::pause(); });
    world.team().barrier();
    if (world.rank() == 1) other.reset();
    world.team().barrier();
    std::this_thread::sleep_for(20ms);  // until the goodbye has been received
    const auto before = processor_time();
    std::this_thread::sleep_for(200ms);
    const auto taken = processor_time() - before;
    if (world.rank() == 0) {
      EXPECT_LT(taken, 50ms);
    }
    world.team().barrier();
  });
}

TEST_F(ForkedChild, LetsGoOfItsCopyWhileAnotherThreadWaits) {
  run_ranks(2, [](World& world) {
    std::optional<World> other(init(another(world, ".other")));
    if (world.rank() == 0) {
      std::thread waiting([team = other->team()] { team.barrier(); });
      std::this_thread::sleep_for(50ms);  // until it waits
      Child child([&] { other.reset(); });
      EXPECT_EQ(child.exit_code(20s), 0);
      world.team().barrier();
      waiting.join();
    } else {
      world.team().barrier();
      other->team().barrier();
    }
    world.team().barrier();
  });
}

TEST_F(ForkedChild, IsNoRank) {
  run_ranks(2, [](World& world) {
    const Team team = world.team();
    const Stream stream(world.device());
    std::atomic<int> ran = 0;
    if (world.rank() == 0) {
      world.device().launch(stream, [&ran] { ++ran; });
      Event event(world.device());
      event.record(stream);
      Child child([&] {
        int refused = 0;
        const auto use = [&](const std::string& why, const auto& body) {
          try {
            body();
          } catch (const InvalidArgument& error) {
            if (std::string(error.what()).find(why) != std::string::npos) ++refused;
          }
        };
        use("that rank 0 forked", [&] { team.barrier(); });
        use("that rank 0 forked", [&] { team.check(); });  // as plans do at each run
        use("that rank 0 forked", [&] { static_cast<void>(team.team({0, 1})); });
        use("that rank 0 forked", [&] { team.set_timeout(7ms); });
        ran = 0;
        use("that its owner forked", [&] { stream.synchronize(); });
        use("that its owner forked", [&] { world.device().synchronize(); });
        use("that its owner forked", [&] { world.device().launch(stream, [] {}); });
        use("that its owner forked", [&] { event.synchronize(); });
        use("that its owner forked", [&] { const Stream another(world.device()); });
        team.abort("by a process that is no rank");
        ::_exit(ran == 0 ? refused : -1);
      });
      EXPECT_EQ(child.exit_code(20s), 9);
      stream.synchronize();
      EXPECT_EQ(ran, 1);
    }
    EXPECT_GT(team.timeout(), 7ms);
    EXPECT_EQ(team.team({0, 1}).size(), 2);
    team.barrier();
    EXPECT_FALSE(team.failed());
  });
}

}  // namespace
}  // namespace tandem

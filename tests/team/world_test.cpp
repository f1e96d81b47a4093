// SPDX-License-Identifier: Apache-2.0
#include "tandem/team/world.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <poll.h>
#include <pthread.h>
#include <source_location>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/trace_range.hpp"

#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/ranks.hpp"
#include "support/shared.hpp"
#include "support/socket_names.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::expect_says;
using testing::RankOptions;
using testing::run_ranks;

/// How to join another world of the same processes, named after `name`.
InitOptions another(const World& world, const std::string& name) {
  Launch launch = world.launch();
  launch.job += name;
  return {.launch = launch, .env = Env{}, .device = DeviceId{DeviceType::host, 0}};
}

template <typename T>
std::string refusal(const InitOptions& options, const std::source_location& where = std::source_location::current()) {
  return testing::error_of<T>([&] { static_cast<void>(init(options)); }, where);
}

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

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(World, WritesOneTraceOfAllRanks) {
  const std::string path = ::testing::TempDir() + "tandem-trace-" + std::to_string(::getpid()) + ".json";
  for (const int ranks : {3, 1, 4}) {  // each job's trace takes the place of the one before
    const auto traced = [](World& world) {
      const Stream stream(world.device());
      {
        const TraceRange range(world.device(), stream, "a range", TraceKind::compute);
      }
      world.team().synchronize(stream);
    };
    RankOptions options;
    options.env.trace = path;
    run_ranks(ranks, traced, options);
    const std::string text = testing::contents_of(path);
    EXPECT_TRUE(text.starts_with("{") && text.ends_with("}\n]}\n")) << text;
    EXPECT_EQ(count(text, "traceEvents"), 1U) << text;
    EXPECT_EQ(count(text, R"("name":"a range")"), static_cast<std::size_t>(ranks)) << text;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(count(text, "\"name\":\"rank " + std::to_string(rank) + "\""), 1U) << text;
    }
  }
  std::filesystem::remove(path);
}

TEST(World, TheTraceOfAnEarlierRunIsReplacedEvenIfItsJobHadTheSameName) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under ThreadSanitizer all runs are one process";
#endif
  const std::string path = ::testing::TempDir() + "tandem-runs-" + std::to_string(::getpid()) + ".json";
  const std::string job = "test.runs." + std::to_string(::getpid());
  for (int run = 0; run < 2; ++run) {
    run_ranks(2, [&](World& world) {
      InitOptions options = another(world, "");
      options.launch->job = job;
      options.env->trace = path;
      for (int round = 0; round < 3; ++round) init(options).team().barrier();
    });
    const std::string text = testing::contents_of(path);
    for (const char* rank : {"rank 0", "rank 1"}) {  // the worlds of one run share a trace
      EXPECT_EQ(count(text, std::string("\"name\":\"") + rank + "\""), 3U) << text;
    }
  }
  std::filesystem::remove(path);
}

/// A world of this rank alone that leaves a range in the trace at `path`, and ends after `at_last`.
void trace_alone(const World& world, const std::string& path, const std::function<void()>& at_last = [] {}) {
  InitOptions options = another(world, ".traced");
  options.env->trace = path;
  options.env->log = LogLevel::none;
  const World traced = init(options);
  {
    const Stream stream(traced.device());
    const TraceRange range(traced.device(), stream, "a \"range\" of }{", TraceKind::compute);
  }
  at_last();
}

/// That `text` is a whole document with an event on each line; of `worlds` worlds.
void expect_whole(const std::string& text, std::size_t worlds) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  ASSERT_GE(lines.size(), 3U) << text;
  EXPECT_TRUE(lines.front().starts_with("{\"displayTimeUnit") && lines.front().ends_with("[")) << text;
  EXPECT_EQ(lines.back(), "]}") << text;
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    EXPECT_TRUE(lines[i].starts_with("{\"ph\":") && lines[i].ends_with(i + 2 < lines.size() ? "}," : "}")) << text;
    EXPECT_EQ(count(lines[i], "{"), count(lines[i], "}")) << text;
  }
  EXPECT_EQ(count(text, R"("name":"rank 0")"), worlds) << text;
}

TEST(World, ATraceIsWholeAgainAfterARankThatWasKilledWritingIt) {
  run_ranks(1, [](World& world) {
    const std::string path = ::testing::TempDir() + "tandem-killed-" + std::to_string(::getpid()) + ".json";
    trace_alone(world, path);
    const std::string first = testing::contents_of(path);
    expect_whole(first, 1);
    trace_alone(world, path);
    const std::string both = testing::contents_of(path);
    expect_whole(both, 2);
    const std::size_t place = first.size() - 4;  // the second world's events are from here on
    const std::size_t complete = both.find('\n', place + 2);
    for (std::size_t written = 1; place + written < both.size(); ++written) {
      std::string killed = first;
      killed.replace(place, std::min(written, killed.size() - place), both, place, written);
      std::ofstream(path, std::ios::trunc) << killed;
      trace_alone(world, path);
      // The killed one counts once its first event, which names it, was written.
      expect_whole(testing::contents_of(path), place + written + 1 >= complete ? 3 : 2);
      if (HasFailure()) FAIL() << "after " << written << " bytes: " << killed;
    }
    std::filesystem::remove(path);
  });
}

TEST(World, ATraceStaysWholeWhenARankCannotWriteToIt) {
  run_ranks(1, [](World& world) {
    const std::string path = ::testing::TempDir() + "tandem-full-" + std::to_string(::getpid()) + ".json";
    trace_alone(world, path);
    const std::string first = testing::contents_of(path);
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    trace_alone(world, path, [&] {  // as on a disk that fills
      rlimit low = before;
      low.rlim_cur = first.size() + 7;
      EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
    });
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ::signal(SIGXFSZ, SIG_DFL);
    EXPECT_EQ(testing::contents_of(path), first);
    trace_alone(world, path);
    expect_whole(testing::contents_of(path), 2);
    std::filesystem::remove(path);
  });
}

TEST(World, ATraceThatCannotBeWrittenIsAnErrorAtOnce) {
  run_ranks(1, [](World& world) {
    InitOptions options = another(world, ".traced");
    options.env->trace = "/nowhere/rank%r.json";
    expect_says(refusal<InvalidArgument>(options), {"TANDEM_TRACE", "rank 0", "'/nowhere/rank0.json'"});
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
    if (world.rank() == 2) options.launch->world_size = 5;
    expect_says(refusal<InvalidArgument>(options), {"rank 2 ", "5 ranks", "3"});
    world.team().barrier();

#if defined(__SANITIZE_THREAD__)
    return;  // ranks are threads here, and one process sees by itself that it would have a rank twice
#endif
    options = another(world, ".twice");
    if (world.rank() == 2) options.launch->rank = 1;
    expect_says(refusal<InvalidArgument>(options), {"rank 1 ", "is that rank already"});
    world.team().barrier();
  });
}

TEST(World, ARankThatDoesNotComeIsNamedOnAll) {
  run_ranks(4, [](World& world) {
    InitOptions options = another(world, ".late");
    options.env->timeout = 300ms;
    if (world.rank() == 2) {
      std::this_thread::sleep_for(600ms);
    } else {
      expect_says(refusal<Timeout>(options), {"rank 2 of 4 did not come", "300 ms", "TANDEM_TIMEOUT"});
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
  // Up to the hard limit, Tandem raises the soft one. Who lowers that cannot raise it again, unless it is root: so each
  // try is made by processes of its own.
  const testing::Shared<std::atomic<int>> refusals;
  constexpr rlim_t tries = 16;
  for (rlim_t left = 0; left < tries; ++left) {
    run_ranks(2, [&refusals, left](World& world) {
      InitOptions options = another(world, ".full");
      options.env->timeout = world.rank() == 0 ? 20s : 1s;  // whom nobody may be left to tell
      if (world.rank() == 0) {
        rlim_t limit = 0;  // with so many numbers below it that are no descriptor's yet
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
      world.team().barrier();
    });
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
    pthread_attr_t endless;  // a stack that no machine has the addresses for
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
  expect_says(refused([](Env& env) { env.device = "gpu"; }), {"TANDEM_DEVICE", "'gpu'", "auto, host, cuda"});
  expect_says(refused([](Env& env) { env.gemm = "mkl"; }), {"TANDEM_GEMM", "'mkl'", "onednn"});
  expect_says(refused([](Env& env) { env.log = static_cast<LogLevel>(9); }), {"TANDEM_LOG", "level 9", "trace"});
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

enum class Said { nothing, no_other_user, is_other_user, listens, was_let_go, was_kept };

/// A process of another user, who has taken or comes to the socket where rank 0 of this user's job takes in the others.
class Stranger {
 public:
  explicit Stranger(const std::string& job) {
    const std::string name = testing::socket_prefix(testing::hash_of_job(job)) + "/0";
    address_.sun_family = AF_UNIX;
    name.copy(address_.sun_path, sizeof(address_.sun_path));
    address_.sun_path[0] = '\0';
    length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  }
  ~Stranger() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  /// Both are false where this root cannot become another user.
  [[nodiscard]] bool listens() {
    return lives([this](int socket) {
      if (::bind(socket, address(), length_) == 0 && ::listen(socket, 64) == 0) *said_ = Said::listens;
      ::pause();
    });
  }
  [[nodiscard]] bool connects() {
    return lives([this](int socket) {
      while (::connect(socket, address(), length_) != 0) ::usleep(1000);
      pollfd polled{socket, POLLIN, 0};
      char nothing = 0;
      const bool closed = ::poll(&polled, 1, 5000) == 1 && ::recv(socket, &nothing, 1, MSG_DONTWAIT) == 0;
      *said_ = closed ? Said::was_let_go : Said::was_kept;
    });
  }

  /// What it says next.
  [[nodiscard]] Said says() const { return after(Said::is_other_user); }

 private:
  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }

  [[nodiscard]] Said after(Said before) const {
    for (int i = 0; i < 10'000 && *said_ == before; ++i) std::this_thread::sleep_for(1ms);
    return *said_;
  }

  template <typename Life> [[nodiscard]] bool lives(const Life& life) {
    pid_ = ::fork();
    if (pid_ != 0) return after(Said::nothing) != Said::no_other_user;
    constexpr id_t nobody = 65534;
    if (::setresgid(nobody, nobody, nobody) == 0 && ::setresuid(nobody, nobody, nobody) == 0) {
      *said_ = Said::is_other_user;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // only now: it is forgotten when the user changes
      life(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    } else {
      *said_ = Said::no_other_user;
    }
    ::_exit(0);
  }

  sockaddr_un address_{};
  socklen_t length_ = 0;
  const testing::Shared<std::atomic<Said>> said_;
  pid_t pid_ = -1;
};

class Strangers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user as well";
  }
  /// How rank `rank` of two joins the job.
  [[nodiscard]] InitOptions joining(int rank) const {
    return {.launch = Launch{rank, 2, rank, 2, 1, job_, "tests"}, .env = Env{}, .device = DeviceId{}};
  }

  const std::string job_ = "strangers." + std::to_string(::getpid());
  Stranger stranger_{job_};
};

TEST_F(Strangers, ASocketOfAnotherUserIsNoRank0) {
  if (!stranger_.listens()) GTEST_SKIP() << "this root cannot become another user";
  ASSERT_EQ(stranger_.says(), Said::listens);
  run_ranks(1, [this](World&) {
    InitOptions options = joining(1);
    options.env->timeout = 300ms;
    expect_says(refusal<Timeout>(options), {"rank 0", job_, "belongs to another user", "300 ms"});
  });
}

TEST_F(Strangers, WhoIsAnotherUserIsNotLetIn) {
  if (!stranger_.connects()) GTEST_SKIP() << "this root cannot become another user";
  run_ranks(2, [this](World& world) {
    if (world.rank() == 1) {  // while rank 0 takes in the others
      EXPECT_EQ(stranger_.says(), Said::was_let_go);
    }
    const World guarded = init(joining(world.rank()));
    EXPECT_EQ(guarded.size(), 2);
    guarded.team().barrier();
    world.team().barrier();
  });
}

}  // namespace
}  // namespace tandem

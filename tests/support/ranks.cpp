// SPDX-License-Identifier: Apache-2.0
#include "support/ranks.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <mutex>
#include <optional>
#include <poll.h>
#include <random>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"

#include "support/gpu_memory.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace tandem::testing {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool under_tsan = true;
#else
constexpr bool under_tsan = false;
#endif

std::string unique_job() {
  static std::atomic<int> runs{0};
  std::ostringstream name;
  name << "test." << ::getpid() << "." << runs++ << "." << std::random_device{}();
  return name.str();
}

InitOptions options_of(int rank, int ranks, const std::string& job, const RankOptions& options) {
  InitOptions init;
  init.launch = Launch{rank, ranks, rank, ranks, 1, job, "tests"};
  init.env = options.env;
  init.device = DeviceId{options.device, 0};
  if (options.device == DeviceType::cuda) init.device->index = rank % std::max(1, device_count(DeviceType::cuda));
  return init;
}

/// Runs the body as one rank. Returns the message of what it threw, if it did.
std::optional<std::string> run_rank(int rank, int ranks, const std::string& job, const RankOptions& options,
                                    const std::function<void(World&)>& body) {
  try {
    if (options.before_init) options.before_init(rank);
    World world = init(options_of(rank, ranks, job, options));
    body(world);
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

// ---- Ranks as threads

void run_threads(int ranks, const std::function<void(World&)>& body, const RankOptions& options) {
  const std::string job = unique_job();
  std::vector<std::atomic<bool>> ended(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      if (const auto threw = run_rank(rank, ranks, job, options, body)) {
        ADD_FAILURE() << "rank " << rank << " threw: " << *threw;
      }
      ended[static_cast<std::size_t>(rank)] = true;
    });
  }
  const auto deadline = std::chrono::steady_clock::now() + options.limit;
  while (!std::all_of(ended.begin(), ended.end(), [](const auto& flag) { return flag.load(); })) {
    if (std::chrono::steady_clock::now() > deadline) {
      std::fprintf(stderr,
                   "after %lld s these ranks (threads) have not ended:", static_cast<long long>(options.limit.count()));
      for (int rank = 0; rank < ranks; ++rank) {
        if (!ended[static_cast<std::size_t>(rank)]) std::fprintf(stderr, " %d", rank);
      }
      std::fprintf(stderr, "\n");
      std::abort();  // a thread cannot be killed
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- Ranks as processes. A child sends records through a pipe: a kind (a character that no text contains), then texts
// that end with a zero byte.

constexpr char failure_record = '\1';  // file, line, text
constexpr char skip_record = '\2';     // the same
constexpr char end_record = '\4';      // the rank ran to its end

void write_record(int fd, char kind, std::initializer_list<std::string> texts) {
  std::string record(1, kind);
  for (const std::string& text : texts) record.append(text.c_str(), text.size() + 1);
  for (std::size_t done = 0; done < record.size();) {
    const ssize_t size = ::write(fd, record.data() + done, record.size() - done);
    if (size < 0 && errno != EINTR) return;
    if (size > 0) done += static_cast<std::size_t>(size);
  }
}

/// Sends this child's failures to the parent, which prints them.
class Reporter : public ::testing::EmptyTestEventListener {
 public:
  explicit Reporter(int fd) : fd_(fd) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    const char kind = result.failed() ? failure_record : skip_record;
    if (result.passed()) return;
    write_record(fd_, kind,
                 {result.file_name() == nullptr ? "" : result.file_name(), std::to_string(result.line_number()),
                  result.message()});
  }

 private:
  int fd_;
};

[[noreturn]] void be_rank(int rank, int ranks, const std::string& job, const RankOptions& options,
                          const std::function<void(World&)>& body, int fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Reporter(fd));
  if (const auto threw = run_rank(rank, ranks, job, options, body)) {
    write_record(fd, failure_record, {"", "0", "threw: " + *threw});
  }
#if defined(__SANITIZE_ADDRESS__)
  if (__lsan_do_recoverable_leak_check() != 0) write_record(fd, failure_record, {"", "0", "leaked memory (see above)"});
#endif
  std::fflush(nullptr);
  write_record(fd, end_record, {});
  ::_exit(0);
}

struct Child {
  pid_t pid = -1;
  int pipe = -1;
  int status = 0;
  bool ended = false;
  std::string records;
};

std::string how_it_ended(int status) {
  std::ostringstream text;
  if (WIFSIGNALED(status)) {
    text << "was killed by signal " << WTERMSIG(status) << " (" << ::strsignal(WTERMSIG(status)) << ")";
  } else {
    text << "exited with code " << WEXITSTATUS(status) << " before its end";
  }
  return text.str();
}

/// Adds the child's failures to the current test. Returns the reason if it skipped.
std::optional<std::string> judge(int rank, const Child& child, bool may_die) {
  std::optional<std::string> skipped;
  bool came_to_its_end = false;
  std::istringstream records(child.records);
  for (char kind = 0; records.get(kind);) {
    if (kind == end_record) {
      came_to_its_end = true;
      continue;
    }
    std::string file;
    std::string line;
    std::string text;
    std::getline(records, file, '\0');
    std::getline(records, line, '\0');
    std::getline(records, text, '\0');
    if (kind == skip_record) {
      skipped = text;
    } else {
      ADD_FAILURE_AT(file.empty() ? "rank" : file.c_str(), std::atoi(line.c_str())) << "rank " << rank << ": " << text;
    }
  }
  if (!came_to_its_end && !may_die) ADD_FAILURE() << "rank " << rank << " " << how_it_ended(child.status);
  return skipped;
}

void collect(std::vector<Child>& children, std::chrono::steady_clock::time_point deadline) {
  while (true) {
    std::vector<pollfd> polled;
    std::vector<Child*> owners;
    for (Child& child : children) {
      if (child.pipe < 0) continue;
      polled.push_back({child.pipe, POLLIN, 0});
      owners.push_back(&child);
    }
    if (polled.empty() || std::chrono::steady_clock::now() > deadline) return;
    if (::poll(polled.data(), polled.size(), 20) <= 0) continue;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t size = ::read(polled[i].fd, buffer, sizeof(buffer));
      if (size > 0) owners[i]->records.append(buffer, static_cast<std::size_t>(size));
      // A rank that has reported its end is done, even if a child that it forked keeps the pipe open.
      if (size == 0 || (!owners[i]->records.empty() && owners[i]->records.back() == end_record)) {
        ::close(std::exchange(owners[i]->pipe, -1));
      }
    }
  }
}

/// Forks a process that calls `be` with the end of a pipe to write to. Returns an errno, or 0.
template <typename Be> int start(std::vector<Child>& children, const Be& be) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    for (const Child& sibling : children) ::close(sibling.pipe);
    be(ends[1]);
  }
  const int error = pid < 0 ? errno : 0;
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    return error;
  }
  Child& child = children.emplace_back();
  child.pid = pid;
  child.pipe = ends[0];
  return 0;
}

void run_processes(int ranks, const std::function<void(World&)>& body, const RankOptions& options) {
  const std::string job = unique_job();
  std::fflush(nullptr);
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const int error = start(children, [&](int fd) { be_rank(rank, ranks, job, options, body, fd); });
    if (error == 0) continue;
    ADD_FAILURE() << "rank " << rank << " could not be started: " << std::strerror(error);
    for (const Child& child : children) {  // they would wait for the missing rank
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
      ::close(child.pipe);
    }
    return;
  }
  const auto deadline = std::chrono::steady_clock::now() + options.limit;
  collect(children, deadline);
  std::optional<std::string> skipped;
  for (int rank = 0; rank < ranks; ++rank) {
    Child& child = children[static_cast<std::size_t>(rank)];
    while (::waitpid(child.pid, &child.status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "rank " << rank << " has not ended after " << options.limit.count() << " s, and was killed";
        ::kill(child.pid, SIGKILL);
        ::waitpid(child.pid, &child.status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (child.pipe >= 0) ::close(child.pipe);
    const bool may_die = std::find(options.may_die.begin(), options.may_die.end(), rank) != options.may_die.end();
    if (const auto reason = judge(rank, child, may_die)) skipped = reason;
  }
  if (skipped && !::testing::Test::HasFailure()) GTEST_SKIP() << *skipped;
}

/// `run_processes` on GPUs, whose memory must be as it was before once all ranks have ended.
void run_processes_on_gpus(int ranks, const std::function<void(World&)>& body, const RankOptions& options) {
  const GpuMemoryWatch watch;
  static std::string told;
  if (told != watch.why_blind()) {
    told = watch.why_blind();
    std::printf("[    memory] of GPUs is %s%s\n", told.empty() ? "watched again" : "not watched: ", told.c_str());
  }
  run_processes(ranks, body, options);
  if (::testing::Test::HasFailure() || ::testing::Test::IsSkipped()) return;
  if (const std::string left = watch.left(std::chrono::seconds(5)); !left.empty()) ADD_FAILURE() << left;
}

/// A number, at least `least`, that the environment may set. A typo is an error: read as 0 it would disable tests.
template <typename Number> Number setting(const char* name, Number otherwise, Number least) {
  const char* const given = std::getenv(name);
  if (given == nullptr) return otherwise;
  Number value{};
  const char* const end = given + std::strlen(given);
  const auto [stop, error] = std::from_chars(given, end, value);
  if (error != std::errc() || stop != end || !(value >= least)) {
    std::ostringstream text;
    text << name << " is '" << given << "'; allowed: numbers from " << least;
    throw InvalidArgument(text.str());
  }
  return value;
}

}  // namespace

void run_ranks(int ranks, const std::function<void(World&)>& body, const RankOptions& options) {
  const bool as_threads = options.device == DeviceType::host && (options.kind == RankKind::threads || under_tsan);
  static_cast<void>(seed());  // drawn before ranks are forked, so that all have the same
  if (as_threads) {
    run_threads(ranks, body, options);
  } else if (options.device == DeviceType::cuda) {
    run_processes_on_gpus(ranks, body, options);
  } else {
    run_processes(ranks, body, options);
  }
}

std::string why_no_rank_may_die() {
  return under_tsan ? "under ThreadSanitizer ranks are threads, and a thread cannot be killed" : "";
}

const std::vector<int>& team_sizes() {
  static const std::vector<int> sizes = [] {
    std::vector<int> all{1, 2, 3, 4, 5, 8};
    std::erase_if(all, [most = setting("TANDEM_TEST_MAX_RANKS", all.back(), 1)](int size) { return size > most; });
    return all;
  }();
  return sizes;
}

std::uint64_t seed() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static std::string told;
  static std::uint64_t value = 0;
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name =
      test == nullptr ? "" : std::string(test->test_suite_name()) + "." + std::string(test->name());
  if (told == name && value != 0) return value;
  value = setting<std::uint64_t>("TANDEM_TEST_SEED", std::random_device{}() | 1U, 1);
  told = name;
  std::printf("[     seed ] TANDEM_TEST_SEED=%llu %s\n", static_cast<unsigned long long>(value), name.c_str());
  std::fflush(stdout);
  return value;
}

double stress_scale() { return setting("TANDEM_TEST_SCALE", 1.0, 0.001); }

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#include "tools/launcher.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <random>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tandem/base/error.hpp"
#include "tandem/team/file_descriptor.hpp"

#include "base/format.hpp"
#include "tools/cores.hpp"
#include "tools/launch_guard.hpp"
#include "tools/outlet.hpp"

namespace tandem::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<int, 6> passed_on{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr auto grace = std::chrono::seconds(5);        // between SIGTERM and SIGKILL, after a rank has failed
constexpr auto long_grace = std::chrono::seconds(30);  // the same, after this command got SIGTERM or SIGHUP
constexpr auto one_request =
    std::chrono::milliseconds(200);                    // a shell and the kernel may both send a terminal's SIGHUP
constexpr auto last_output = std::chrono::seconds(1);  // for pipes that other processes still hold, or do not read
constexpr std::size_t longest_line = 64 * 1024;

[[noreturn]] void fail(std::string_view what) { throw Error(format("{}: {}", what, std::strerror(errno))); }

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("a pipe could not be made");
  return {FileDescriptor::from_native_handle(ends[0]), FileDescriptor::from_native_handle(ends[1])};
}

/// Forwards one rank's stdout or stderr to ours, line by line.
class Output {
 public:
  Output(FileDescriptor source, int target, std::string prefix)
      : source_(std::move(source)), target_(target), prefix_(std::move(prefix)) {}

  [[nodiscard]] int fd() const noexcept { return source_.get(); }
  [[nodiscard]] int target() const noexcept { return target_; }
  [[nodiscard]] bool open() const noexcept { return static_cast<bool>(source_); }

  void take(Outlet& outlet) {
    std::array<char, 16 * 1024> part;
    const ssize_t size = ::read(source_.get(), part.data(), part.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (size <= 0) return close(outlet);
    line_.append(part.data(), static_cast<std::size_t>(size));
    std::string ready;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      ready += prefix_;
      ready.append(line_, begin, end + 1 - begin);
    }
    line_.erase(0, begin);
    outlet.add(target_, std::move(ready));
    if (line_.size() > longest_line) end_line(outlet);
  }

  void close(Outlet& outlet) {
    if (!line_.empty()) end_line(outlet);
    source_ = {};
  }

 private:
  void end_line(Outlet& outlet) {
    outlet.add(target_, prefix_ + line_ + "\n");
    line_.clear();
  }

  FileDescriptor source_;
  int target_;
  std::string prefix_;
  std::string line_;
};

struct Rank {
  pid_t pid = -1;
  std::optional<int> status;  // as waitpid gives it
};

bool well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::string how(int status) {
  if (!WIFSIGNALED(status)) return format("exit code {}", WEXITSTATUS(status));
  return format("killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
}

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options) : options_(options) {
    if (options.bind) {
      cores_ = divide_cores(options.ranks);
      if (cores_.empty()) {
        throw InvalidArgument(
            format("--bind core: {} ranks do not divide over the CPUs that may be used ('nproc' counts them); allowed: "
                   "as many ranks as CPUs, fewer, or a multiple",
                   options.ranks));
      }
    }
    std::random_device random;
    job_ = format("run.{}.{:08x}{:08x}", ::getpid(), random(), random());
    // A parent may have set it to be ignored, which exec preserves: then we would not learn how a rank ended.
    ::signal(SIGCHLD, SIG_DFL);
    on_broken_pipe_before_ = ::signal(SIGPIPE, SIG_IGN);
    sigset_t watched;
    ::sigemptyset(&watched);
    ::sigaddset(&watched, SIGCHLD);
    for (const int signal : passed_on) ::sigaddset(&watched, signal);
    ::sigprocmask(SIG_BLOCK, &watched, &mask_before_);
    signals_ = FileDescriptor::from_native_handle(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) fail("signalfd");
    guard_.emplace(static_cast<std::size_t>(options.ranks));
    // Two pipes for each rank. If the limit is still too low, creating a pipe reports it.
    if (::getrlimit(RLIMIT_NOFILE, &descriptors_before_) != 0) fail("getrlimit");
    const rlimit most{descriptors_before_.rlim_max, descriptors_before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &most);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].status) continue;
      ::kill(-ranks_[r].pid, SIGKILL);
      guard_->forget(r);
      ::waitpid(ranks_[r].pid, nullptr, 0);
    }
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  }

  int run() {
    for (int rank = 0; rank < options_.ranks; ++rank) start(rank);
    while (running() > 0) turn();
    drain();
    if (options_.report || first_failure_ >= 0) report();
    while (!outlet_.empty()) turn();
    if (const int error = outlet_.error(); error != 0) {
      outlet_.add(STDERR_FILENO,
                  format("tandem run: what the ranks wrote could not be written: {}\n", std::strerror(error)));
      while (!outlet_.empty()) turn();
    }
    if (first_failure_ < 0) return outlet_.error() == 0 ? 0 : 1;
    return code_of(*ranks_[static_cast<std::size_t>(first_failure_)].status);
  }

 private:
  void start(int rank) {
    Pipe out;
    Pipe error;
    if (options_.prefix) {
      out = make_pipe();
      error = make_pipe();
    }
    Pipe started = make_pipe();  // carries errno if the program cannot be started; closes if it could
    const pid_t launcher = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) fail("fork");
    if (pid == 0) become_rank(rank, launcher, out.write.get(), error.write.get(), started.write.get());
    ::setpgid(pid, pid);  // in both processes, since either may run first
    ranks_.push_back({pid, std::nullopt});
    if (options_.prefix) {
      const std::string prefix = format("[{}] ", rank);
      outputs_.emplace_back(std::move(out.read), STDOUT_FILENO, prefix);
      outputs_.emplace_back(std::move(error.read), STDERR_FILENO, prefix);
    }
    started.write = {};
    int reason = 0;
    if (::read(started.read.get(), &reason, sizeof(reason)) == sizeof(reason)) {
      throw NotStarted(options_.program[0], reason);
    }
  }

  [[noreturn]] void become_rank(int rank, pid_t launcher, int out, int error, int started) {
    ::setpgid(0, 0);
    guard_->watch(static_cast<std::size_t>(rank), ::getpid());
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launcher) ::_exit(1);  // the launcher died before PR_SET_PDEATHSIG took effect
    if (rank != 0 || ::isatty(STDIN_FILENO) == 1) {
      const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
    }
    // If this fails, the rank runs unpinned.
    if (!cores_.empty()) ::sched_setaffinity(0, sizeof(cpu_set_t), &cores_[static_cast<std::size_t>(rank)]);
    if (out >= 0) ::dup2(out, STDOUT_FILENO);
    if (error >= 0) ::dup2(error, STDERR_FILENO);
    for (const auto& [name, value] : options_.environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::setenv("TANDEM_RANK", std::to_string(rank).c_str(), 1);
    ::setenv("TANDEM_WORLD_SIZE", std::to_string(options_.ranks).c_str(), 1);
    ::setenv("TANDEM_JOB", job_.c_str(), 1);
    std::vector<char*> argv;
    argv.reserve(options_.program.size() + 1);
    for (const std::string& word : options_.program) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::setrlimit(RLIMIT_NOFILE, &descriptors_before_);
    ::signal(SIGPIPE, on_broken_pipe_before_);
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    ::execvp(argv[0], argv.data());
    const int reason = errno;
    [[maybe_unused]] const ssize_t told = ::write(started, &reason, sizeof(reason));
    ::_exit(127);
  }

  [[nodiscard]] long running() const {
    return std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.status; });
  }

  /// Waits for output, readers, signals or the end of the grace period, and handles them.
  void turn() {
    std::vector<pollfd> polled{{signals_.get(), POLLIN, 0}};
    if (!outlet_.empty()) {  // until our output is read, the ranks' output must wait
      polled.push_back({outlet_.waits_for(), POLLOUT, 0});
    } else {
      for (const Output& output : outputs_) {
        if (output.open()) polled.push_back({output.fd(), POLLIN, 0});
      }
    }
    const int wait = kill_at_ || running() == 0 ? 50 : -1;
    if (::poll(polled.data(), polled.size(), wait) < 0 && errno != EINTR) fail("poll");
    outlet_.write();
    copy_output(polled);
    take_signals();
    if (kill_at_ && Clock::now() >= *kill_at_) {
      if (running() > 0 && told_at_) {
        outlet_.add(STDERR_FILENO, format("tandem run: ranks that have not ended: {}; killing them\n", running()));
      }
      signal_all(SIGKILL);
      kill_at_.reset();
    }
    if (told_at_ && running() == 0 && outlet_.stalled() > last_output) give_up_reader();
  }

  void copy_output(const std::vector<pollfd>& polled) {
    for (Output& output : outputs_) {
      const auto ready = std::find_if(polled.begin(), polled.end(), [&output](const pollfd& each) {
        return output.open() && each.fd == output.fd() && each.revents != 0;
      });
      if (ready != polled.end()) output.take(outlet_);
    }
    // A rank that keeps writing should get what it would get without us: a broken pipe.
    for (Output& output : outputs_) {
      if (output.open() && outlet_.abandoned(output.target())) output.close(outlet_);
    }
  }

  void give_up_reader() {
    const bool out = outlet_.waits_for() == STDOUT_FILENO;
    outlet_.give_up();
    outlet_.add(STDERR_FILENO, format("tandem run: the end of what the ranks wrote to {} is dropped: nobody reads it\n",
                                      out ? "stdout" : "stderr"));
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      signal_all(signal);
      if (signal != SIGUSR1 && signal != SIGUSR2) told_to_end(signal);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!ranks_[r].status) reap(r);
    }
  }

  /// Ranks may take their time to end after SIGTERM or SIGHUP, and may use SIGINT and SIGQUIT for something else; but
  /// whoever asks twice is not kept waiting.
  void told_to_end(int signal) {
    const auto now = Clock::now();
    const bool must_end = signal == SIGTERM || signal == SIGHUP;
    if (told_at_ && now - *told_at_ >= one_request && (must_end_ || !must_end)) {
      kill_at_ = now;
    } else if (must_end) {
      kill_at_ = kill_at_ ? std::min(*kill_at_, now + long_grace) : now + long_grace;
    }
    told_at_ = now;
    must_end_ = must_end_ || must_end;
  }

  void reap(std::size_t r) {
    Rank& rank = ranks_[r];
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return;
    }
    ::kill(-rank.pid, SIGKILL);  // kills what the rank started; while the rank is a zombie, its number cannot be reused
    guard_->forget(r);
    int status = 0;
    ::waitpid(rank.pid, &status, 0);
    rank.status = status;
    if (well(status) || first_failure_ >= 0) return;
    first_failure_ = static_cast<int>(r);
    const bool stop = options_.stop_on_failure && running() > 0 && !must_end_;  // then all are ending
    outlet_.add(STDERR_FILENO, format("tandem run: rank {} (pid {}) failed: {}{}\n", r, rank.pid, how(status),
                                      stop ? "; stopping the others" : ""));
    if (!stop) return;
    signal_all(SIGTERM);
    kill_at_ = Clock::now() + grace;
  }

  void signal_all(int signal) {
    for (const Rank& rank : ranks_) {
      if (!rank.status) ::kill(-rank.pid, signal);
    }
  }

  /// Forwards the output that is still in the pipes.
  void drain() {
    const auto is_open = [](const Output& output) { return output.open(); };
    auto deadline = Clock::now() + last_output;
    while (std::any_of(outputs_.begin(), outputs_.end(), is_open)) {
      const auto before = Clock::now();
      const bool held_up = !outlet_.empty();
      if (!held_up && before >= deadline) break;
      turn();
      if (held_up) deadline += Clock::now() - before;  // time spent waiting for our reader does not count
    }
    for (Output& output : outputs_) {
      if (output.open()) output.close(outlet_);
    }
  }

  void report() {
    std::string text = "tandem run: how the ranks ended:\n";
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      text += format("  rank {} (pid {}): {}{}\n", r, ranks_[r].pid, how(*ranks_[r].status),
                     static_cast<int>(r) == first_failure_ ? ", the first to fail" : "");
    }
    outlet_.add(STDERR_FILENO, std::move(text));
  }

  const LaunchOptions& options_;
  std::string job_;
  std::vector<cpu_set_t> cores_;  // by rank; empty if ranks are not pinned
  sigset_t mask_before_{};
  sighandler_t on_broken_pipe_before_ = SIG_DFL;
  rlimit descriptors_before_{};
  FileDescriptor signals_;
  std::optional<LaunchGuard> guard_;
  std::vector<Rank> ranks_;
  std::vector<Output> outputs_;
  Outlet outlet_;
  int first_failure_ = -1;
  std::optional<Clock::time_point> kill_at_;
  // When a signal last told this command to end: then it does not wait long for a reader that does not read.
  std::optional<Clock::time_point> told_at_;
  bool must_end_ = false;  // by SIGTERM or SIGHUP
};

}  // namespace

NotStarted::NotStarted(const std::string& program, int reason)
    : Error(format("'{}' cannot be started: {}", program, std::strerror(reason))),
      code_(reason == ENOENT ? 127 : 126) {}

int launch(const LaunchOptions& options) { return Launcher(options).run(); }

}  // namespace tandem::tools

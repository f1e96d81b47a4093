// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {

/// The threads of one rank that share a large piece of work. The thread that has such work (a worker that drains a
/// stream, or a thread that waits for one) is a member of the crew meanwhile, and does parts of the work, too.
///
/// Members take parts one by one. So a thread that wakes late, or whose core is busy, helps less but does not delay the
/// rest; and unlike an OpenMP runtime's threads, none spins between pieces of work on cores that copies could use.
class HostCrew {
 public:
  /// Called with a part's number, and that of the member doing it, who does no other part at the same time.
  using Part = std::function<void(int part, int member)>;

  /// `size` includes the caller of `run`. The other threads are created by the first call that needs them, so that a
  /// process may fork until then.
  explicit HostCrew(int size) noexcept : size_(size) {}
  HostCrew(const HostCrew&) = delete;
  HostCrew& operator=(const HostCrew&) = delete;
  /// Joins its threads; no `run` may be in progress.
  ~HostCrew();

  /// How many members there are, numbered from 0.
  [[nodiscard]] int size() const noexcept { return size_; }

  /// Does each of `parts` parts once, and returns when all are done. While one call uses the crew, a concurrent call
  /// does all its parts itself, as member 0. Throws what the first part to fail threw.
  void run(int parts, const Part& part);

 private:
  struct Work {
    const Part& part;
    int parts;
    std::atomic<int> next{0};
    std::mutex failure_mutex;
    std::exception_ptr failure;
  };

  void make_threads() noexcept;
  void help(int member) noexcept;
  static void take_parts(Work& work, int member) noexcept;

  const int size_;
  std::mutex turn_;  ///< held by the call that uses the crew

  std::mutex mutex_;  // guards the members below except threads_, which turn_ guards
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
  Work* work_ = nullptr;  ///< null: no work to help with
  std::uint64_t works_ = 0;
  int helping_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem

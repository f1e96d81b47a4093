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

/// The threads of one rank that share a large piece of work. Whoever has such work, be it a worker that drains a stream
/// or a thread that waits for one, is a member of the crew while it lasts, and does parts of it beside the others.
///
/// Members take parts one by one. So a thread that wakes late, or whose core somebody else has, costs no more than its
/// help; and none of them spins in between, as an OpenMP runtime's do, on cores that copies could use.
class HostCrew {
 public:
  /// What a part is given: its number, and that of who does it, who does nothing else at the time.
  using Part = std::function<void(int part, int member)>;

  /// `size` counts the caller of `run`. The other threads are made by the first call that needs them, so that a process
  /// may fork until then.
  explicit HostCrew(int size) noexcept : size_(size) {}
  HostCrew(const HostCrew&) = delete;
  HostCrew& operator=(const HostCrew&) = delete;
  /// Joins its threads; nothing runs.
  ~HostCrew();

  /// Members, of numbers from 0.
  [[nodiscard]] int size() const noexcept { return size_; }

  /// Does each of `parts` parts once, and returns when all are done. While one call has the crew, another thread's does
  /// its parts alone. Throws what the first part to fail threw.
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
  std::mutex turn_;  ///< whose call has the crew

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
  Work* work_ = nullptr;  ///< null: there is nothing to join
  std::uint64_t works_ = 0;
  int helping_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem

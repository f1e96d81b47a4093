// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device/host/host_stream.hpp"

namespace tandem {

/// Memory of the host device that was deallocated while work was queued, which may still use it: freed by the first
/// `sweep` after that work has run. An exception that leaves a scope frees its buffers, and the run that threw may be
/// half queued.
class DeferredFrees {
 public:
  /// Takes the memory, and frees it once everything has run that is queued on `streams` now; at once if nothing is left
  /// to run. Without memory to remember it by, it is never freed.
  void free_behind(void* memory, std::vector<HostStreamPtr> streams);
  /// Frees what has become free. Costs one load if nothing is held.
  void sweep() noexcept {
    if (holds_.load(std::memory_order_acquire)) sweep_held();
  }

 private:
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  struct Held {
    std::unique_ptr<void, Free> memory;
    std::vector<std::pair<HostStreamPtr, std::uint64_t>> behind;  // streams with the number of their last task
  };

  void sweep_held() noexcept;

  std::atomic<bool> holds_{false};
  std::mutex mutex_;
  std::vector<Held> held_;
};

}  // namespace tandem

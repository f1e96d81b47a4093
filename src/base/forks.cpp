// SPDX-License-Identifier: Apache-2.0
#include "base/forks.hpp"

#include <atomic>
#include <pthread.h>

namespace tandem {
namespace {

std::atomic<unsigned> forks{0};

}  // namespace

unsigned fork_number() noexcept {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace tandem

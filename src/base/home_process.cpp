// SPDX-License-Identifier: Apache-2.0
#include "base/home_process.hpp"

#include <atomic>
#include <pthread.h>

namespace tandem {
namespace {

std::atomic<unsigned> counted{0};

}  // namespace

unsigned HomeProcess::forks() noexcept {
  [[maybe_unused]] static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { counted.fetch_add(1, std::memory_order_relaxed); });
  return counted.load(std::memory_order_relaxed);
}

}  // namespace tandem

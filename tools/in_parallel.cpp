// SPDX-License-Identifier: Apache-2.0
#include "tools/in_parallel.hpp"

#include <algorithm>
#include <future>
#include <sched.h>
#include <vector>

namespace tandem::tools {
namespace {

std::int64_t usable_cpus() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

}  // namespace

void in_parallel(std::int64_t count, std::int64_t least, int ranks,
                 const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  const std::int64_t threads =
      std::clamp<std::int64_t>(std::min(usable_cpus() / ranks, count / std::max<std::int64_t>(least, 1)), 1, 64);
  std::vector<std::future<void>> others;
  for (std::int64_t i = 1; i < threads; ++i) {
    others.push_back(std::async(std::launch::async, [&, i] { body(i * count / threads, (i + 1) * count / threads); }));
  }
  body(0, count / threads);
  for (std::future<void>& other : others) other.get();
}

}  // namespace tandem::tools

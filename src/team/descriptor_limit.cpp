// SPDX-License-Identifier: Apache-2.0
#include "team/descriptor_limit.hpp"

#include <algorithm>
#include <mutex>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "tandem/team/file_descriptor.hpp"

#include "base/format.hpp"

namespace tandem {

void make_room_for_descriptors(std::size_t count, const Log& log) {
  static std::mutex mutex;  // otherwise ranks that are threads could lower the limit that another one has just raised
  const std::scoped_lock lock(mutex);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t before = limit.rlim_cur;
  // The kernel assigns the lowest free number, so this is about how many descriptors are in use.
  const auto next = FileDescriptor::from_native_handle(::eventfd(0, EFD_CLOEXEC));
  const rlim_t wanted = (next ? static_cast<rlim_t>(next.get()) : before) + count;
  // The last quarter is reserved for descriptors moved by move_high, and for those that peers send early.
  while (wanted > limit.rlim_cur - limit.rlim_cur / 4 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = std::min(std::max<rlim_t>(limit.rlim_cur, 64) * 4, limit.rlim_max);
  }
  if (limit.rlim_cur == before || ::setrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  log.write(LogLevel::info, format("the soft limit of open file descriptors (ulimit -n) was raised from {} to {}; "
                                   "the hard limit is {}",
                                   before, limit.rlim_cur, limit.rlim_max));
}

std::string describe_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "see ulimit -n";
  return format("this process may have {} file descriptors open (ulimit -n), and at most {} (ulimit -Hn)",
                limit.rlim_cur, limit.rlim_max);
}

}  // namespace tandem

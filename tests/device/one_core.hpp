// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <gtest/gtest.h>
#include <sched.h>

namespace tandem::testing {

/// During its lifetime this thread and those that it starts share one core, so a thread that waits must yield it.
class OneCore {
 public:
  OneCore() {
    EXPECT_EQ(::sched_getaffinity(0, sizeof(allowed_), &allowed_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);  // not the first one, which all tests would share
    EXPECT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;
  ~OneCore() { ::sched_setaffinity(0, sizeof(allowed_), &allowed_); }

 private:
  cpu_set_t allowed_{};
};

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <gtest/gtest.h>
#include <sched.h>

namespace tandem::testing {

/// While it lives, this thread and those that it starts run on one core: who waits there has to leave it to the others.
class OneCore {
 public:
  OneCore() {
    EXPECT_EQ(::sched_getaffinity(0, sizeof(allowed_), &allowed_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);  // not all tests' first one
    EXPECT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;
  ~OneCore() { ::sched_setaffinity(0, sizeof(allowed_), &allowed_); }

 private:
  cpu_set_t allowed_{};
};

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#include "base/signals_blocked.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <thread>

namespace tandem {
namespace {

bool is_blocked(int signal) {
  sigset_t mask;
  EXPECT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &mask), 0);
  return ::sigismember(&mask, signal) == 1;
}

TEST(SignalsBlocked, FaultsReachTheProgramsHandlersFromEachThread) {
  const auto check = [] {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF}) EXPECT_FALSE(is_blocked(signal));
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1}) EXPECT_TRUE(is_blocked(signal));
  };
  {
    const SignalsBlocked guard;
    check();
    std::thread(check).join();
  }
  EXPECT_FALSE(is_blocked(SIGTERM));
}

TEST(SignalsBlocked, WhatTheProgramBlocksStaysBlocked) {
  sigset_t one;
  sigset_t before;
  ::sigemptyset(&one);
  ::sigaddset(&one, SIGPROF);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &one, &before), 0);
  {
    const SignalsBlocked guard;
    EXPECT_TRUE(is_blocked(SIGPROF));
  }
  EXPECT_TRUE(is_blocked(SIGPROF));
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
}

}  // namespace
}  // namespace tandem

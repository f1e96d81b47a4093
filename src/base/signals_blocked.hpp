// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace tandem {

/// While it lives, this thread takes no signals, and nor do the threads that it starts, ever: the program's handlers,
/// and what it waits for with sigwait, are for its own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace tandem

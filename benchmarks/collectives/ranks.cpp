// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace measurement {

int fork_ranks(int ranks, const std::function<void(int rank)>& body) {
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) {
      std::perror("fork");
      return 1;
    }
    if (child != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 0;
    try {
      body(rank);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      status = 1;
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  int failed = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    if (::wait(&status) < 0 || status != 0) failed = 1;
  }
  return failed;
}

}  // namespace measurement

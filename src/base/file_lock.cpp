// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/file.h>
#include <thread>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

// Ample: others hold the lock only while they write.
constexpr auto patience = 10s;

}  // namespace

FileLock::FileLock(int file, const std::string& name) : file_(file) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      throw Error(format("{} could not be locked: {}", name, std::strerror(errno)));
    }
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error(format("{} is held by another process for more than {} s", name, patience.count()));
    }
    std::this_thread::sleep_for(1ms);
  }
}

FileLock::~FileLock() { ::flock(file_, LOCK_UN); }

}  // namespace tandem

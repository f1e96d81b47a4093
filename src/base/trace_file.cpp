// SPDX-License-Identifier: Apache-2.0
#include "base/trace_file.hpp"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "tandem/base/error.hpp"
#include "tandem/base/trace.hpp"

#include "base/format.hpp"
#include "base/path_pattern.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

// Other ranks hold the lock for as long as they write.
constexpr auto lock_patience = 10s;

/// Holds a file's lock. Each rank has opened the file for itself, so the lock keeps ranks of one process apart, too.
class Lock {
 public:
  Lock(int file, const std::string& path) : file_(file) {
    const auto deadline = std::chrono::steady_clock::now() + lock_patience;
    while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        throw Error(format("the trace '{}' could not be locked: {}", path, std::strerror(errno)));
      }
      if (std::chrono::steady_clock::now() > deadline) {
        throw Error(
            format("the trace '{}' is held by another process for more than {} s", path, lock_patience.count()));
      }
      std::this_thread::sleep_for(1ms);
    }
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { ::flock(file_, LOCK_UN); }

 private:
  int file_;
};

std::string read_front(int file, std::size_t bytes) {
  std::string text(bytes, '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

void write_at(int file, std::string_view text, off_t place, const std::string& path) {
  while (!text.empty()) {
    const ssize_t put = ::pwrite(file, text.data(), text.size(), place);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw Error(format("the trace '{}' could not be written: {}", path, std::strerror(errno)));
    text.remove_prefix(static_cast<std::size_t>(put));
    place += put;
  }
}

}  // namespace

TraceFile::TraceFile(const std::string& pattern, int rank)
    : path_(expand_path(pattern, rank)), file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (file_ < 0) {
    throw InvalidArgument(format("TANDEM_TRACE: rank {} could not open '{}': {}", rank, path_, std::strerror(errno)));
  }
}

TraceFile::~TraceFile() { ::close(file_); }

std::string TraceFile::name_of_run() {
  static const std::string drawn = [] {
    std::random_device random;
    return format("{:08x}{:08x}", random(), random());
  }();
  return format("{}.{}", ::getpid(), drawn);  // a forked child has the same draw
}

void TraceFile::belong_to(const std::string& job, const std::string& run) { label_ = format("{}, run {}", job, run); }

void TraceFile::add(const std::string& events) const {
  constexpr std::string_view end = "\n]}\n";  // of a document
  const std::string empty = Trace::chrome_document({}, label_);
  const std::string begin = empty.substr(0, empty.size() - end.size());

  const Lock lock(file_, path_);
  struct stat status{};
  if (::fstat(file_, &status) != 0) throw Error(format("the trace '{}': {}", path_, std::strerror(errno)));
  if (read_front(file_, begin.size()) == begin) {
    const auto place = status.st_size - static_cast<off_t>(end.size());
    write_at(file_, format(",\n{}{}", events, end), place, path_);
  } else {
    const std::string text = format("{}\n{}{}", begin, events, end);
    write_at(file_, text, 0, path_);
    if (::ftruncate(file_, static_cast<off_t>(text.size())) != 0) {
      throw Error(format("the trace '{}' could not be cut: {}", path_, std::strerror(errno)));
    }
  }
}

}  // namespace tandem

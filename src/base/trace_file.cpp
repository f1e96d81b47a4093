// SPDX-License-Identifier: Apache-2.0
#include "base/trace_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "tandem/base/error.hpp"
#include "tandem/base/trace.hpp"

#include "base/file_lock.hpp"
#include "base/format.hpp"
#include "base/path_pattern.hpp"
#include "base/writable_file.hpp"

namespace tandem {
namespace {

std::string read_at(int file, off_t place, std::size_t bytes, const std::string& path) {
  std::string text(bytes, '\0');
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t part = ::pread(file, text.data() + got, bytes - got, place + static_cast<off_t>(got));
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) throw Error(format("the trace '{}' could not be read: {}", path, std::strerror(errno)));
    if (part == 0) break;
    got += static_cast<std::size_t>(part);
  }
  text.resize(got);
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

void cut(int file, std::size_t size, const std::string& path) {
  if (::ftruncate(file, static_cast<off_t>(size)) == 0) return;
  throw Error(format("the trace '{}' could not be cut: {}", path, std::strerror(errno)));
}

/// The file at `path`, created if it is not there; `given` names it in errors.
class OpenFile {
 public:
  OpenFile(const std::filesystem::path& path, const std::string& given)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (file_ < 0) throw Error(format("the trace '{}' could not be opened: {}", given, std::strerror(errno)));
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(file_); }
  [[nodiscard]] int get() const noexcept { return file_; }

 private:
  int file_;
};

constexpr std::string_view end = "\n]}\n";  // of a document

/// The length of the JSON object at the beginning of `line`; 0 if there is no complete one.
std::size_t object_length(std::string_view line) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{') ++depth;
    if (c == '}') --depth;
    if (depth == 0) return c == '}' ? i + 1 : 0;
  }
  return 0;
}

/// The offset at which a document's last whole event ends; 0 if it has none. The document begins with a header of
/// `front` bytes; each event has a line of its own.
std::size_t end_of_events(std::string_view document, std::size_t front) {
  std::size_t line_end = document.size();
  while (true) {
    const std::size_t newline = line_end == 0 ? std::string_view::npos : document.rfind('\n', line_end - 1);
    if (newline == std::string_view::npos || newline < front) return 0;
    const std::size_t length = object_length(document.substr(newline + 1, line_end - newline - 1));
    if (length != 0) return newline + 1 + length;
    line_end = newline;
  }
}

}  // namespace

TraceFile::TraceFile(const std::string& pattern, int rank) : path_(expand_path(pattern, rank)) {
  std::error_code error;
  absolute_ = std::filesystem::absolute(path_, error);
  const std::string why = error ? error.message() : why_not_writable(absolute_, O_RDWR);
  if (!why.empty()) throw InvalidArgument(format("TANDEM_TRACE: rank {} could not open '{}': {}", rank, path_, why));
}

std::string TraceFile::name_of_run() {
  static const std::string drawn = [] {
    std::random_device random;
    return format("{:08x}{:08x}", random(), random());
  }();
  return format("{}.{}", ::getpid(), drawn);  // the pid, since a forked child has the same random part
}

void TraceFile::belong_to(const std::string& job, const std::string& run) { label_ = format("{}, run {}", job, run); }

void TraceFile::add(const std::string& events) const {
  const std::string empty = Trace::chrome_document({}, label_);
  const std::string begin = empty.substr(0, empty.size() - end.size());

  const OpenFile opened(absolute_, path_);
  const int file = opened.get();
  const FileLock lock(file, format("the trace '{}'", path_));
  struct stat status{};
  if (::fstat(file, &status) != 0) throw Error(format("the trace '{}': {}", path_, std::strerror(errno)));
  const auto size = static_cast<std::size_t>(status.st_size);
  std::size_t place = 0;  // the end of what is kept
  if (read_at(file, 0, begin.size(), path_) == begin) {
    place = size - std::min(size, end.size());
    if (read_at(file, static_cast<off_t>(place), end.size(), path_) != end) {
      // A rank was killed while it wrote: drop its incomplete event.
      place = end_of_events(read_at(file, 0, size, path_), begin.size());
      cut(file, place, path_);
    }
  } else {
    cut(file, 0, path_);  // before the write, so that a rank killed during it leaves no remains of another run
  }
  try {
    write_at(file, place == 0 ? format("{}\n{}{}", begin, events, end) : format(",\n{}{}", events, end),
             static_cast<off_t>(place), path_);
  } catch (...) {
    // Keep what the other ranks wrote a complete document. Disk space for its end is already allocated.
    if (place == 0) {
      cut(file, 0, path_);
    } else {
      cut(file, place + end.size(), path_);
      write_at(file, end, static_cast<off_t>(place), path_);
    }
    throw;
  }
}

}  // namespace tandem

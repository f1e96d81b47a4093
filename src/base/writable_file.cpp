// SPDX-License-Identifier: Apache-2.0
#include "base/writable_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace tandem {

std::string why_not_writable(const std::string& path, int access) {
  // Without O_NONBLOCK, the open of a pipe could wait for its other end.
  if (const int file = ::open(path.c_str(), access | O_CLOEXEC | O_NONBLOCK); file >= 0) {
    ::close(file);
    return "";
  }
  if (errno != ENOENT || path.empty() || path.ends_with('/')) return std::strerror(errno);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (const auto target = std::filesystem::read_symlink(path, error); !error) {
    return why_not_writable(folder / target, access);  // what it points to would be created; a cycle is ELOOP above
  }
  // No permission tells whether a file can be created: root may do anything, but not in /proc. A file of another name
  // is, since one of that name could be seen, or be written to, by another process before it is removed.
  std::string other = (folder.empty() ? std::filesystem::path(".") : folder) / ".tandem-XXXXXX";
  const int file = ::mkostemp(other.data(), O_CLOEXEC);
  if (file < 0) return std::strerror(errno);
  ::close(file);
  ::unlink(other.c_str());
  return "";
}

}  // namespace tandem

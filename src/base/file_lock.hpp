// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// Holds an flock(2) lock on a file: it excludes every other open of the file, including those in the same process.
class FileLock {
 public:
  /// `file` is a descriptor that outlives this; `name` its name in errors: "the trace 'trace.json'". Throws Error
  /// if the file cannot be locked, or if its lock is held elsewhere for more than 10 s.
  FileLock(int file, const std::string& name);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  int file_;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// Holds a file's lock, as flock(2) has it: it keeps apart who opened the file apart, ranks of one process too.
class FileLock {
 public:
  /// `file` is a descriptor that outlives this; `name` its name in errors: "the trace 'trace.json'". Throws Error
  /// if the file cannot be locked, or if another one holds its lock for more than 10 s.
  FileLock(int file, const std::string& name);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  int file_;
};

}  // namespace tandem

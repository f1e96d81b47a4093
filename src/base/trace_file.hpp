// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// The file of TANDEM_TRACE: one Chrome trace, to which each rank of a job on this machine adds what it recorded, when
/// it ends. It is a whole document after each of them. What another job left there is replaced.
class TraceFile {
 public:
  /// Opens the file, and makes it if need be. Throws InvalidArgument if that cannot be done.
  TraceFile(const std::string& pattern, int rank, std::string job);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  /// Adds a rank's Trace::chrome_events. Throws Error if the file cannot be locked within seconds, read or written.
  void add(const std::string& events) const;

 private:
  std::string path_;
  std::string job_;
  int file_ = -1;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// The file of TANDEM_TRACE: one Chrome trace, to which each rank of a job on this machine appends its events when it
/// ends. It is a complete document after each rank, even after one that could not write all of its events. A trace of
/// another run is replaced, even if the job had the same name (torchrun's job names repeat).
class TraceFile {
 public:
  /// Opens the file, creating it if necessary. Throws InvalidArgument if that fails.
  TraceFile(const std::string& pattern, int rank);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  /// A run name that no other process has. All ranks use rank 0's, so that the worlds that a program creates one after
  /// another share a trace.
  [[nodiscard]] static std::string name_of_run();
  /// Identifies the job and run whose trace this is. Call before `add`.
  void belong_to(const std::string& job, const std::string& run);

  /// Appends a rank's Trace::chrome_events. Throws Error if the file cannot be locked (within 10 s), read or written.
  void add(const std::string& events) const;

 private:
  std::string path_;
  std::string label_;
  int file_ = -1;
};

}  // namespace tandem

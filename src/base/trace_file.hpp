// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// The file of TANDEM_TRACE: one Chrome trace, to which each rank of a job on this machine adds what it recorded, when
/// it ends. It is a whole document after each of them, also after one that could not write all of its events. What
/// another run left there is replaced, even one whose job had the same name, as torchrun's have.
class TraceFile {
 public:
  /// Opens the file, and makes it if need be. Throws InvalidArgument if that cannot be done.
  TraceFile(const std::string& pattern, int rank);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  /// A name that no other process has for its runs. Each rank calls its run what rank 0 does: then the worlds that a
  /// program makes one after the other share a trace.
  [[nodiscard]] static std::string name_of_run();
  /// Says whose trace this is: before `add`.
  void belong_to(const std::string& job, const std::string& run);

  /// Adds a rank's Trace::chrome_events. Throws Error if the file cannot be locked within seconds, read or written.
  void add(const std::string& events) const;

 private:
  std::string path_;
  std::string label_;
  int file_ = -1;
};

}  // namespace tandem

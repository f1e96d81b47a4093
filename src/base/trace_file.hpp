// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "tandem/base/export.hpp"

namespace tandem {

/// The file of TANDEM_TRACE: one Chrome trace, to which each rank of a job on this machine appends its events when it
/// ends. There is none before the first rank ends. It is a complete document after each rank, even after one that could
/// not write all of its events. A trace of another run is replaced, even if the job had the same name (torchrun's job
/// names repeat).
class TANDEM_API TraceFile {
 public:
  /// Throws InvalidArgument if the file cannot be opened, or created. Leaves one that is there as it is, and none where
  /// there was none.
  TraceFile(const std::string& pattern, int rank);

  /// A run name that no other process has. All ranks use rank 0's, so that the worlds that a program creates one after
  /// another share a trace.
  [[nodiscard]] static std::string name_of_run();
  /// Identifies the job and run whose trace this is. Call before `add`.
  void belong_to(const std::string& job, const std::string& run);

  /// Appends a rank's Trace::chrome_events. Throws Error if the file cannot be opened, locked (within 10 s), read or
  /// written.
  void add(const std::string& events) const;

 private:
  std::string path_;                ///< as given, for errors
  std::filesystem::path absolute_;  ///< the same file after the program has changed its working directory
  std::string label_;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tandem/base/concepts.hpp"
#include "tandem/base/env.hpp"
#include "tandem/base/export.hpp"

namespace tandem {

/// One rank's log: lines of "[time] [tandem] [rank R] [level] text" to stderr or to a file, each line of a text of
/// several as one of these. Thread-safe.
class TANDEM_API Log {
 public:
  /// A log that writes nothing.
  Log();
  /// Logs what is at `level` or more severe to `file`, appending (%h, %p and %r in its name are the host, the process
  /// and the rank, and %% is a %), or, if that is empty, to stderr. Throws InvalidArgument for a file that cannot be
  /// opened. If one cannot be written later on, stderr says so once.
  Log(LogLevel level, const std::string& file, int rank);
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;
  ~Log();

  /// Costs one branch: check it before composing a line that is expensive to format.
  [[nodiscard]] bool enabled(LogLevel level) const noexcept { return level <= level_; }
  /// Writes `text`, whose lines stay together, and flushes it before returning; does nothing if `level` is not enabled.
  void write(LogLevel level, std::string_view text) const;
  /// `write`, unless this log has written `text` through it before: for what would be said again by each plan.
  void write_once(LogLevel level, const std::string& text) const;

 private:
  struct Sink;
  LogLevel level_ = LogLevel::none;
  std::unique_ptr<Sink> sink_;
};
static_assert(Owner<Log>);

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tandem/base/env.hpp"
#include "tandem/base/export.hpp"

namespace tandem {

/// One rank's log: lines of "[time] [tandem] [rank R] [level] text" to stderr or to a file. Safe from any thread.
class TANDEM_API Log {
 public:
  /// A log that writes nothing.
  Log();
  Log(LogLevel level, const std::string& file, int rank);
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;
  ~Log();

  /// One branch: ask before composing a line that costs something.
  [[nodiscard]] bool enabled(LogLevel level) const noexcept { return level <= level_; }
  void write(LogLevel level, std::string_view text) const;

 private:
  struct Sink;
  LogLevel level_ = LogLevel::none;
  std::unique_ptr<Sink> sink_;
};

}  // namespace tandem

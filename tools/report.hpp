// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/team/world.hpp"

namespace tandem::tools {

/// Where a benchmark's results go: a table on stdout, row by row; or CSV instead; and JSON in a file, or on stdout with
/// nothing else. Only rank 0's report prints or writes anything.
class Report {
 public:
  struct Options {
    bool csv = false;
    std::string json;            ///< a path, "-" for stdout, or empty
    nlohmann::ordered_json run;  ///< `provenance` of what is reported on
  };
  Report(const World& world, const std::string& title, const Options& options);

  /// A line "# text" of the table.
  void comment(const std::string& text);
  /// What the next row is about, on a terminal until that is there.
  void measuring(const std::string& what);
  /// One row: its values for CSV and JSON, and its line in the table.
  void row(const nlohmann::ordered_json& values, const std::string& line);
  /// A value that belongs to the whole document.
  void set(const std::string& name, const nlohmann::ordered_json& value);
  /// Writes the JSON, if requested. Throws Error if it cannot be written.
  void finish();

 private:
  bool speaks_;
  bool table_;
  bool csv_;
  std::string json_;
  nlohmann::ordered_json document_;
};

/// A value in CSV format (RFC 4180): text with a comma, a quote or a line end is quoted. Null is empty.
[[nodiscard]] std::string csv_cell(const nlohmann::ordered_json& value);

/// Throws InvalidArgument if both CSV and JSON would go to stdout.
void expect_one_stdout(const Report::Options& options);

/// A prediction in microseconds; null if it is 0, which means that the operation does not have the algorithm.
[[nodiscard]] nlohmann::ordered_json microseconds_if_any(double seconds);

/// Writes `text` to a file, or to stdout for "-". Throws Error if that fails.
void write_text(const std::string& path, const std::string& text);
/// Writes a document as `write_text` does, with invalid UTF-8 replaced.
void write_json(const std::string& path, const nlohmann::ordered_json& document);
/// Throws InvalidArgument if two of these files (option and path) have the same path. Empty paths and "-" are ignored.
void expect_apart(std::initializer_list<std::pair<std::string_view, std::string_view>> files);

/// "host" or "cuda", and the emulated link if there is one: "host, emulated link 20us,1GB/s".
[[nodiscard]] std::string setting(const World& world);

/// Throws InvalidArgument if TANDEM_TRACE is set: a command that writes timelines of parts of its run (`what` in the
/// error) clears the trace as it does, so that none of the whole run is left.
void expect_no_trace(const Env& env, std::string_view what);

/// Collective. Writes the trace of all ranks to `path`, from rank 0, and clears it. `label`: its picture's title.
void write_timeline(const World& world, const std::string& path, const std::string& label);

}  // namespace tandem::tools

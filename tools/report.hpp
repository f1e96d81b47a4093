// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/team/world.hpp"

namespace tandem::tools {

/// Where a benchmark's figures go: a table on stdout, each row as it comes; or CSV instead; and JSON into a file, or on
/// stdout alone. Only rank 0's report says anything.
class Report {
 public:
  struct Options {
    bool csv = false;
    std::string json;  ///< a path, "-" for stdout, or empty
  };
  Report(const World& world, const std::string& title, const Options& options);

  /// A line "# text" of the table.
  void comment(const std::string& text);
  /// One row: its values for CSV and JSON, and as the table shows it.
  void row(const nlohmann::ordered_json& values, const std::string& line);
  /// A value of the whole document.
  void set(const std::string& name, const nlohmann::ordered_json& value);
  /// Writes what is to be written at the end. Throws Error where a file cannot be written.
  void finish();

 private:
  bool speaks_;
  bool table_;
  bool csv_;
  std::string json_;
  nlohmann::ordered_json document_;
};

/// A value as CSV has it (RFC 4180): a text with a comma, a quote or a line end stands in quotes. Null is empty.
[[nodiscard]] std::string csv_cell(const nlohmann::ordered_json& value);

/// Throws InvalidArgument where both of them would go to stdout.
void expect_one_stdout(const Report::Options& options);

/// What was predicted in seconds, in microseconds; null of an algorithm that the operation has not, whose time is 0.
[[nodiscard]] nlohmann::ordered_json microseconds_if_any(double seconds);

/// Writes `text` to a file, or to stdout for "-". Throws Error where that fails.
void write_text(const std::string& path, const std::string& text);
/// The same with a document, in which what is no UTF-8 is replaced.
void write_json(const std::string& path, const nlohmann::ordered_json& document);
/// Throws InvalidArgument where two of these files, each an option and its path, are one. Empty ones and "-" are none.
void expect_apart(std::initializer_list<std::pair<std::string_view, std::string_view>> files);

/// "host" or "cuda", and the emulated link where there is one: "host, emulated link 20us,1GB/s".
[[nodiscard]] std::string setting(const World& world);

/// A command whose timelines are of parts of it, as write_timeline's are, cannot also leave TANDEM_TRACE the whole:
/// then this throws InvalidArgument. `what` writes them.
void expect_no_trace(const Env& env, std::string_view what);

/// Collective. Writes the trace of all ranks to `path`, from rank 0, and clears it. `label` stands above its picture.
void write_timeline(const World& world, const std::string& path, const std::string& label);

}  // namespace tandem::tools

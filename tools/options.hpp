// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/dtype.hpp"

#include "tools/operation.hpp"
#include "tools/parse.hpp"
#include "tools/report.hpp"

namespace CLI {
class App;
}

namespace tandem::tools {

// Options that several commands have. The variables that they are stored in must outlive the parsing.

/// OP, required; `known` are the names that the help lists.
void add_operation(CLI::App& app, Operation& operation, const std::vector<std::string>& known);
/// --shape, which may be given several times.
void add_shapes(CLI::App& app, std::vector<Shape>& shapes, const std::string& help);
/// -d, --dtype
void add_dtype(CLI::App& app, std::optional<DType>& dtype, const std::string& help);
/// --tf32
void add_tf32(CLI::App& app, bool& tf32);
/// --weight-dtype, --out-dtype, --scaling and --fast-accum
void add_float8(CLI::App& app, Float8Options& float8);
/// Sets what a layer of 8-bit floats has of these; nothing for one of another dtype.
void add_to(Report& report, DType dtype, const Float8Options& float8);
/// --layout
void add_layouts(CLI::App& app, Layouts& layouts);
/// --bias, --activation and --auxiliary
void add_epilogue(CLI::App& app, Epilogue& epilogue);
/// --gathered and --gradient-dtype
void add_gradient(CLI::App& app, GradientOptions& gradient);
/// --algorithm
void add_algorithm(CLI::App& app, std::string& algorithm);
/// --groups
void add_groups(CLI::App& app, std::optional<int>& groups);
/// --sms
void add_sms(CLI::App& app, std::optional<int>& sms);
/// Throws InvalidArgument if --sms was given but the ranks' devices have no multiprocessors.
void expect_sms(std::optional<int> sms, DeviceType device);
/// A file that is written at the end (see parse_file).
void add_file(CLI::App& app, const char* name, std::string& path, const std::string& help);
/// A file, or stdout, that is written at the end (see parse_output).
void add_output(CLI::App& app, const char* name, std::string& path, const std::string& help);
/// --json and --csv
void add_report(CLI::App& app, Report::Options& report);

/// An option that only some operations support.
struct OptionOfSome {
  const char* option;
  bool (*taken_by)(Operation operation);
  const char* takers;  ///< as in "that is for collectives"
};
/// Throws InvalidArgument if the command line of `app` has an option that the operation does not support: one of the
/// command's own, or one of those above.
void expect_taken(Operation operation, const CLI::App& app, std::span<const OptionOfSome> own = {});

}  // namespace tandem::tools

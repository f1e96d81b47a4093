// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
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

// Options that several commands have. What they are read into outlives the parsing.

/// OP, required; `known` are the names in the help.
void add_operation(CLI::App& app, Operation& operation, const std::vector<std::string>& known);
/// --shape, as often as it is given.
void add_shapes(CLI::App& app, std::vector<Shape>& shapes, const std::string& help);
/// -d, --dtype
void add_dtype(CLI::App& app, std::optional<DType>& dtype, const std::string& help);
/// --tf32
void add_tf32(CLI::App& app, bool& tf32);
/// --layout
void add_layouts(CLI::App& app, Layouts& layouts);
/// --bias, --activation and --auxiliary
void add_epilogue(CLI::App& app, Epilogue& epilogue);
/// --gathered
void add_gathered(CLI::App& app, GatheredOperand& gathered);
/// --sms
void add_sms(CLI::App& app, std::optional<int>& sms);
/// --json and --csv
void add_report(CLI::App& app, Report::Options& report);

}  // namespace tandem::tools

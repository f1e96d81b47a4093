// SPDX-License-Identifier: Apache-2.0
#include "tools/options.hpp"

#include <CLI/CLI.hpp>
#include <limits>

namespace tandem::tools {

void add_operation(CLI::App& app, Operation& operation, const std::vector<std::string>& known) {
  app.add_option_function<std::string>(
         "operation", [&operation](const std::string& text) { operation = parse_operation(text); }, joined(known))
      ->type_name("OP")
      ->required();
}

void add_shapes(CLI::App& app, std::vector<Shape>& shapes, const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         "--shape",
         [&shapes](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) shapes.push_back(parse_shape("--shape", text));
         },
         help)
      ->type_name("M,N,K")
      ->delimiter('\0');
}

void add_dtype(CLI::App& app, std::optional<DType>& dtype, const std::string& help) {
  app.add_option_function<std::string>(
         "-d,--dtype", [&dtype](const std::string& text) { dtype = parse_dtype(text); }, help)
      ->type_name("NAME");
}

void add_tf32(CLI::App& app, bool& tf32) {
  app.add_flag("--tf32", tf32,
               "linear operations in f32: what is multiplied may be rounded to TF32, where there is such");
}

void add_sms(CLI::App& app, std::optional<int>& sms) {
  app.add_option_function<std::string>(
         "--sms",
         [&sms](const std::string& text) {
           sms = static_cast<int>(parse_integer("--sms", text, 0, std::numeric_limits<int>::max()));
         },
         "cuda: how many multiprocessors kernels that communicate may take; 0 leaves gathers to copy engines")
      ->type_name("N");
}

void add_report(CLI::App& app, Report::Options& report) {
  app.add_option("--json", report.json, "write all figures as JSON; - is stdout, without the table")->type_name("FILE");
  app.add_flag("--csv", report.csv, "comma-separated values instead of the table");
}

}  // namespace tandem::tools

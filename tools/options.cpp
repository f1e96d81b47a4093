// SPDX-License-Identifier: Apache-2.0
#include "tools/options.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <limits>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem::tools {
namespace {

constexpr const char* layers = "all_gather_linear, linear_reduce_scatter and linear_all_reduce";
constexpr std::array<OptionOfSome, 13> options_of_some{
    {{"--shape", is_linear, "linear operations"},
     {"--groups", is_linear, "linear operations"},
     {"--tf32", is_linear, "linear operations"},
     {"--weight-dtype", multiplies_weight, layers},
     {"--out-dtype", multiplies_weight, layers},
     {"--scaling", multiplies_weight, layers},
     {"--fast-accum", multiplies_weight, layers},
     {"--layout", multiplies_weight, layers},
     {"--bias", multiplies_weight, layers},
     {"--activation", multiplies_weight, layers},
     {"--auxiliary", is_all_gather_linear, "all_gather_linear"},
     {"--gathered", is_weight_gradient, "linear_weight_gradient"},
     {"--gradient-dtype", is_weight_gradient, "linear_weight_gradient"}}};

}  // namespace

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
      ->allow_extra_args(false)  // each value needs its own --shape
      ->delimiter('\0');
}

void add_dtype(CLI::App& app, std::optional<DType>& dtype, const std::string& help) {
  app.add_option_function<std::string>(
         "-d,--dtype", [&dtype](const std::string& text) { dtype = parse_dtype(text); }, help)
      ->type_name("NAME");
}

void add_tf32(CLI::App& app, bool& tf32) {
  app.add_flag("--tf32", tf32, "linear operations in f32: operands may be rounded to TF32, on devices that have it");
}

void add_float8(CLI::App& app, Float8Options& float8) {
  app.add_option_function<std::string>(
         "--weight-dtype", [&float8](const std::string& text) { float8.weight_dtype = parse_dtype(text); },
         "linear layers of f8e4m3 or f8e5m2: of the weight, either of these (default: -d)")
      ->type_name("NAME");
  app.add_option_function<std::string>(
         "--out-dtype", [&float8](const std::string& text) { float8.out_dtype = parse_dtype(text); },
         "linear layers of f8e4m3 or f8e5m2: of y, bias and auxiliary: bf16 (default), f16 or f32")
      ->type_name("NAME");
  app.add_option_function<std::string>(
         "--scaling",
         [&float8](const std::string& text) {
           constexpr std::array all{Scaling::none, Scaling::per_tensor, Scaling::per_row};
           float8.scaling = parse_one_of("--scaling", text, all);
         },
         "linear layers of f8e4m3 or f8e5m2: none (default), per_tensor or per_row")
      ->type_name("NAME");
  app.add_flag("--fast-accum", float8.fast_accum,
               "linear layers of f8e4m3 or f8e5m2: GPUs may sum all of K with their tensor cores' bits");
}

void add_to(Report& report, DType dtype, const Float8Options& float8) {
  if (!is_float8(dtype)) return;
  const LinearSpec spec{.dtype = dtype, .weight_dtype = float8.weight_dtype, .out_dtype = float8.out_dtype};
  report.set("weight_dtype", name(spec.dtype_of_weight()));
  report.set("out_dtype", name(spec.dtype_of_y()));
  report.set("scaling", name(float8.scaling));
  report.set("fast_accum", float8.fast_accum);
}

void add_layouts(CLI::App& app, Layouts& layouts) {
  app.add_option_function<std::string>(
         "--layout", [&layouts](const std::string& text) { layouts = parse_layouts("--layout", text); },
         "linear layers: N or T for x as [M, K] or [K, M], then N or T for the weight as [K, N] or [N, K] (default NT, "
         "as PyTorch stores them; the gradient of x multiplies by the same weight as NN)")
      ->type_name("NT|NN|TT|TN");
}

void add_epilogue(CLI::App& app, Epilogue& epilogue) {
  app.add_flag("--bias", epilogue.bias, "linear layers: with a bias");
  app.add_option_function<std::string>(
         "--activation",
         [&epilogue](const std::string& text) {
           constexpr std::array all{Activation::none, Activation::gelu_erf, Activation::gelu_tanh};
           epilogue.activation = parse_one_of("--activation", text, all);
         },
         "linear layers: none (default), gelu_erf or gelu_tanh")
      ->type_name("NAME");
  app.add_option_function<std::string>(
         "--auxiliary",
         [&epilogue](const std::string& text) {
           constexpr std::array all{Auxiliary::none, Auxiliary::output, Auxiliary::gradient};
           epilogue.auxiliary = parse_one_of("--auxiliary", text, all);
         },
         "all_gather_linear: output keeps what the activation was applied to, gradient multiplies by its derivative "
         "there (default none)")
      ->type_name("NAME");
}

void add_gradient(CLI::App& app, GradientOptions& gradient) {
  app.add_option_function<std::string>(
         "--gathered",
         [&gradient](const std::string& text) {
           constexpr std::array all{GatheredOperand::x, GatheredOperand::dy};
           gradient.gathered = all[parse_name("--gathered", text, {"x", "dy"})];
         },
         "linear_weight_gradient: x (default), as a column-parallel layer does, or dy, as a row-parallel one, whose K "
         "is split")
      ->type_name("NAME");
  app.add_option_function<std::string>(
         "--gradient-dtype", [&gradient](const std::string& text) { gradient.dtype = parse_dtype(text); },
         "linear_weight_gradient: of dW: f32 (default), or what the layer computes in (-d)")
      ->type_name("NAME");
}

void add_algorithm(CLI::App& app, std::string& algorithm) {
  app.add_option("--algorithm", algorithm, "one of the operation's algorithms (default auto)")->type_name("NAME");
}

void add_groups(CLI::App& app, std::optional<int>& groups) {
  app.add_option_function<std::string>(
         "--groups",
         [&groups](const std::string& text) {
           groups = static_cast<int>(parse_integer("--groups", text, 1, std::numeric_limits<int>::max()));
         },
         "linear operations: how many parts the data that travels is split into; of linear_all_reduce: rounds")
      ->type_name("N");
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

void expect_sms(std::optional<int> sms, DeviceType device) {
  if (!sms || device == DeviceType::cuda) return;
  throw InvalidArgument(
      format("--sms is {}, and the ranks' devices are the {}'s, which has none; that needs --device cuda", *sms,
             name(device)));
}

void add_file(CLI::App& app, const char* name, std::string& path, const std::string& help) {
  app.add_option_function<std::string>(
         name, [&path, name](const std::string& text) { path = parse_file(name, text); }, help)
      ->type_name("FILE");
}

void add_output(CLI::App& app, const char* name, std::string& path, const std::string& help) {
  app.add_option_function<std::string>(
         name, [&path, name](const std::string& text) { path = parse_output(name, text); }, help)
      ->type_name("FILE");
}

void add_report(CLI::App& app, Report::Options& report) {
  add_output(app, "--json", report.json, "write all figures as JSON; - is stdout, without the table");
  app.add_flag("--csv", report.csv, "comma-separated values instead of the table");
}

void expect_taken(Operation operation, const CLI::App& app, std::span<const OptionOfSome> own) {
  const auto expect = [&](const OptionOfSome& some) {
    if (app.count(some.option) == 0 || some.taken_by(operation)) return;
    throw InvalidArgument(format("{} has no {}; that is for {}", name(operation), some.option, some.takers));
  };
  for (const OptionOfSome& some : own) expect(some);
  for (const OptionOfSome& some : options_of_some) {
    if (app.get_option_no_throw(some.option) != nullptr) expect(some);  // not every command has all of them
  }
}

}  // namespace tandem::tools

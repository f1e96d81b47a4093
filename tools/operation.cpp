// SPDX-License-Identifier: Apache-2.0
#include "tools/operation.hpp"

#include <algorithm>
#include <ranges>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "tools/collective_run.hpp"
#include "tools/parse.hpp"

namespace tandem::tools {

const std::vector<std::string>& operation_names() {
  static const std::vector<std::string> names{"all_gather",
                                              "reduce_scatter",
                                              "all_reduce",
                                              "all_to_all",
                                              "broadcast",
                                              "all_gather_linear",
                                              "linear_reduce_scatter",
                                              "linear_all_reduce",
                                              "linear_weight_gradient"};
  return names;
}

const std::string& name(Operation operation) { return operation_names()[static_cast<std::size_t>(operation)]; }

Operation parse_operation(std::string_view text) {
  return static_cast<Operation>(parse_name("operation", text, operation_names()));
}

LinearKind linear_kind(Operation operation) {
  switch (operation) {
    case Operation::all_gather_linear: return LinearKind::all_gather_linear;
    case Operation::linear_reduce_scatter: return LinearKind::linear_reduce_scatter;
    case Operation::linear_all_reduce: return LinearKind::linear_all_reduce;
    default: return LinearKind::linear_weight_gradient;
  }
}

std::vector<std::string> algorithms(Operation operation) {
  if (is_linear(operation)) return linear_algorithms(linear_kind(operation));
  std::vector<std::string> all;
  for (const Form& form : std::views::reverse(forms(operation))) {  // symmetric forms first
    for (const std::string& algorithm : algorithms(operation, form)) {
      if (algorithm != "auto" && std::ranges::find(all, algorithm) == all.end()) all.push_back(algorithm);
    }
  }
  return all;
}

double bus_factor(Operation operation, int ranks) {
  const double n = ranks;
  switch (operation) {
    case Operation::all_reduce: return 2 * (n - 1) / n;
    case Operation::broadcast: return 1;
    default: return (n - 1) / n;
  }
}

DType linear_dtype(std::optional<DType> given, bool tf32, DeviceType device) {
  return given.value_or(device == DeviceType::cuda && !tf32 ? bf16 : f32);
}

void expect_options(Operation operation, const std::string& algorithm, std::optional<DType> dtype, bool tf32) {
  std::vector<std::string> known = algorithms(operation);
  known.insert(known.begin(), "auto");
  static_cast<void>(parse_name(name(operation) + " algorithm", algorithm, known));
  const DType type = dtype.value_or(f32);
  const bool floating = type == f32 || type == f16 || type == bf16;
  if (is_linear(operation) && !floating && (!multiplies_weight(operation) || !is_float8(type))) {
    throw InvalidArgument(format("-d is {}; {} multiplies f32, bf16{}", name(type), name(operation),
                                 multiplies_weight(operation) ? ", f16, f8e4m3 and f8e5m2" : " and f16"));
  }
  if (tf32 && type != f32) {
    throw InvalidArgument(format("-d is {}; allowed with --tf32: f32", name(type)));
  }
  if (adds(operation) && !floating && type != f64 && type != i32 && type != i64) {
    throw InvalidArgument(format("-d is {}; {} adds in f32, f16, bf16, f64, i32 or i64", name(type), name(operation)));
  }
}

std::string to_string(const Layouts& layouts) {
  return format("{}{}", layouts.x == Layout::normal ? 'N' : 'T', layouts.weight == Layout::normal ? 'T' : 'N');
}

Layouts parse_layouts(std::string_view option, std::string_view text) {
  for (const Layout x : {Layout::normal, Layout::transposed}) {
    for (const Layout weight : {Layout::normal, Layout::transposed}) {
      if (const Layouts layouts{.x = x, .weight = weight}; to_string(layouts) == text) return layouts;
    }
  }
  throw InvalidArgument(format("{} is '{}'; allowed: NT, NN, TT, TN", option, text));
}

void expect_epilogue(const Epilogue& epilogue) {
  if (epilogue.auxiliary == Auxiliary::none || epilogue.activation != Activation::none) return;
  throw InvalidArgument(format("--auxiliary {} goes with an activation; allowed: --activation gelu_erf or gelu_tanh",
                               name(epilogue.auxiliary)));
}

std::string in_words(const Layouts& layouts, const Epilogue& epilogue) {
  std::string text;
  if (const std::string layout = to_string(layouts); layout != to_string(Layouts{})) text += ", layout " + layout;
  if (epilogue.bias) text += ", bias";
  if (epilogue.activation != Activation::none) text += format(", {}", name(epilogue.activation));
  if (epilogue.auxiliary != Auxiliary::none) text += format(", auxiliary {}", name(epilogue.auxiliary));
  return text;
}

std::string in_words(const Float8Options& float8) {
  std::string text;
  if (float8.weight_dtype) text += format(", weight {}", name(*float8.weight_dtype));
  if (float8.out_dtype) text += format(", into {}", name(*float8.out_dtype));
  if (float8.scaling != Scaling::none) text += format(", scaled {}", name(float8.scaling));
  if (float8.fast_accum) text += ", fast_accum";
  return text;
}

std::string in_words(GatheredOperand gathered) { return gathered == GatheredOperand::dy ? ", dy gathered" : ""; }

std::string in_words(const GradientOptions& gradient) {
  return in_words(gradient.gathered) + (gradient.dtype == f32 ? "" : format(", into {}", name(gradient.dtype)));
}

}  // namespace tandem::tools

// SPDX-License-Identifier: Apache-2.0
#include "linear/algorithms.hpp"

#include <vector>

#include "base/enum_check.hpp"
#include "device/gemm_check.hpp"
#include "linear/local_gemm.hpp"

namespace tandem {
namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string text = "auto";
  for (const std::string& name : names) text += ", " + name;
  return text;
}

}  // namespace

std::vector<std::string> linear_algorithms(LinearKind kind) {
  const auto named = [](const auto& names) { return std::vector<std::string>(names.begin(), names.end()); };
  if (kind == LinearKind::linear_all_reduce) return named(reducing_algorithms);
  return is_reduction(kind) ? named(scattering_algorithms) : named(gathering_algorithms);
}

bool has_groups(std::string_view algorithm) noexcept { return algorithm == pipeline || adds_step_by_step(algorithm); }

std::vector<ShardPart> rounds_of(std::string_view algorithm, int count) {
  if (algorithm == growing) return growing_parts(count);
  if (algorithm == shrinking) return shrinking_parts(count);
  return equal_parts(count);
}

std::string why_unknown(const LinearSpec& spec) {
  for (std::string why : {why_unknown("x_layout", spec.x_layout, Layout::transposed),
                          why_unknown("weight_layout", spec.weight_layout, Layout::transposed),
                          why_unknown("activation", spec.activation, Activation::gelu_tanh),
                          why_unknown("auxiliary", spec.auxiliary, Auxiliary::gradient),
                          why_unknown("scaling", spec.scaling, Scaling::per_row)}) {
    if (!why.empty()) return why;
  }
  return "";
}

std::string why_impossible(LinearKind kind, const LinearSpec& spec, int ranks, const LinearOptions& options) {
  if (std::string why = why_unknown(spec); !why.empty()) return why;
  if (spec.dtype_of_y() != spec.dtype && !is_float8(spec.dtype)) {
    return format("a y of {} was asked for with dtype {}; allowed: {}", name(spec.dtype_of_y()), name(spec.dtype),
                  name(spec.dtype));
  }
  if (std::string why = why_mixed(local_gemm(spec)); !why.empty()) return "its GEMM is " + why;
  if (spec.gradient_dtype != f32 && kind != LinearKind::linear_weight_gradient) {
    return format("a gradient of {} was asked for; of the linear plans only {} gives one", name(spec.gradient_dtype),
                  name(LinearKind::linear_weight_gradient));
  }
  if (spec.gradient_dtype != f32 && spec.gradient_dtype != spec.dtype) {
    return format("a gradient of {} was asked for with dtype {}; allowed: f32{}", name(spec.gradient_dtype),
                  name(spec.dtype), spec.dtype == f32 ? "" : format(" or {}", name(spec.dtype)));
  }
  const std::vector<std::string> known = linear_algorithms(kind);
  if (options.algorithm != "auto" && std::ranges::find(known, options.algorithm) == known.end()) {
    return format("algorithm '{}' is not known; known: {}", options.algorithm, listed(known));
  }
  const int most = std::max(most_groups(kind, spec, ranks), 1);
  if (options.groups && (*options.groups < 1 || *options.groups > most)) {
    return format("{} groups were asked for on a team of {}; possible: 1 to {}", *options.groups, ranks, most);
  }
  if (options.groups && options.algorithm != "auto" && !has_groups(options.algorithm)) {
    return format(
        "{} groups were asked for of algorithm '{}', which has none; groups go with '{}'{}", *options.groups,
        options.algorithm, pipeline,
        kind == LinearKind::linear_all_reduce ? format(", '{}', '{}' and '{}'", stepwise, growing, shrinking) : "");
  }
  const int fewest_sms = is_reduction(kind) ? 1 : 0;
  if (options.sms && *options.sms < fewest_sms) {
    return format("sms is {}; allowed: {} or more{}", *options.sms, fewest_sms,
                  is_reduction(kind) ? ", since sums need 1" : "");
  }
  if (options.keep_gathered && kind != LinearKind::all_gather_linear) {
    return format("keep_gathered was asked for; of the linear plans only {} keeps what it gathers",
                  name(LinearKind::all_gather_linear));
  }
  if (options.leave_sms < 0) return format("leave_sms is {}; allowed: 0 or more", options.leave_sms);
  return "";
}

}  // namespace tandem

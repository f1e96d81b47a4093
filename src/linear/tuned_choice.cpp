// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/tuned_choice.hpp"

#include <optional>
#include <string_view>

#include "base/format.hpp"
#include "linear/algorithms.hpp"

namespace tandem {
namespace {

/// How the GEMM results are summed if not as in what `tune` measures, in words; else empty.
std::string_view other_way(LinearKind kind, const LinearSpec& spec, int ranks) {
  // A pipeline that accumulates a 16-bit gradient in f32 first widens what it adds to.
  if (spec.gradient_dtype != f32 && spec.beta != 0.0F) return ", added to dW";
  if (!is_reduction(kind)) return "";
  if (spec.beta != 0.0F) return ", added to y";  // the own rows then have a GEMM of their own, with any algorithm
  return ranks == 2 && spec.activation != Activation::none ? ", activated" : "";  // see own_product_adds
}

}  // namespace

std::string plan_cache_key(LinearKind kind, const LinearSpec& spec, int ranks, const Device& device) {
  const LinearSpec work{.m = spec.m,
                        .n = spec.n,
                        .k = spec.k,
                        .dtype = spec.dtype,
                        .weight_dtype = spec.weight_dtype,
                        .out_dtype = spec.out_dtype,
                        .scaling = spec.scaling,
                        .fast_accum = spec.fast_accum,
                        .tf32 = spec.tf32,
                        .x_layout = spec.x_layout,
                        .weight_layout = spec.weight_layout,
                        .gradient_dtype = spec.gradient_dtype};
  return PlanCache::key(name(kind), format("{}{}", to_string(work), other_way(kind, spec, ranks)), ranks, device);
}

LinearChoice choose_tuned(LinearKind kind, const LinearSpec& spec, int ranks, const Device& device,
                          const LinearOptions& options, const PlanCache& cache, const Log& log) {
  LinearChoice choice = choose(kind, spec, ranks, device.costs(), options);
  // Cached choices were measured without a limit on SMs.
  const bool open = options.algorithm == "auto" && !options.groups && !options.sms && options.leave_sms == 0 &&
                    ranks > 1 && !cache.path().empty();
  if (!open) return choice;
  const std::string key = plan_cache_key(kind, spec, ranks, device);
  const std::optional<TunedChoice> tuned = cache.find(key, log);
  if (!tuned) return choice;
  LinearOptions kept = options;
  kept.algorithm = tuned->algorithm;
  if (tuned->groups != 0) kept.groups = tuned->groups;
  if (const std::string why = why_impossible(kind, spec, ranks, kept); !why.empty()) {
    log.write_once(LogLevel::warn,
                   format("the plan cache '{}': what it has of {} is ignored: {}", cache.path(), key, why));
    return choice;
  }
  choice = choose(kind, spec, ranks, device.costs(), kept);
  choice.why = format("tuned: it took {:.1f} us when it was measured, by {}", tuned->seconds * 1e6, cache.path());
  return choice;
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_spec.hpp"

#include "base/format.hpp"
#include "collective/tuning.hpp"
#include "linear/groups.hpp"

namespace tandem {

inline constexpr std::string_view pipeline = "pipeline";
inline constexpr std::string_view stepwise = "stepwise";
inline constexpr std::string_view growing = "growing";
inline constexpr std::string_view shrinking = "shrinking";
inline constexpr std::string_view direct = "direct";
inline constexpr std::string_view sequence = "sequence";

/// The algorithms, as LinearOptions::algorithm names them, of plans that gather before the GEMM, and of those that
/// reduce after it, into shards or on all ranks.
inline constexpr std::array gathering_algorithms{pipeline, sequence};
inline constexpr std::array scattering_algorithms{pipeline, direct, sequence};
inline constexpr std::array reducing_algorithms{pipeline, stepwise, growing, shrinking, direct, sequence};

/// Whether each round of an all-reduce is summed before the next one begins.
[[nodiscard]] constexpr bool adds_step_by_step(std::string_view algorithm) noexcept {
  return algorithm == stepwise || algorithm == growing || algorithm == shrinking;
}

/// Whether a plan of this kind sums over ranks.
[[nodiscard]] constexpr bool is_reduction(LinearKind kind) noexcept {
  return kind == LinearKind::linear_reduce_scatter || kind == LinearKind::linear_all_reduce;
}

/// Why a value of the spec's enums is none of them, or empty.
[[nodiscard]] std::string why_unknown(const LinearSpec& spec);
/// Why no plan of this kind can take the enums, dtypes and scaling of `spec`, or run with `options`, and what is
/// possible; empty if one can. For an error message that names the plan and, if there is one, the rank.
[[nodiscard]] std::string why_impossible(LinearKind kind, const LinearSpec& spec, int ranks,
                                         const LinearOptions& options);

/// The `count` (at least 1) rounds of an all-reduce, as parts of every rank's rows.
[[nodiscard]] std::vector<ShardPart> rounds_of(std::string_view algorithm, int count);

/// Whether one kernel on all ranks' memory can handle rows of this size: they must be multiples of a vector access.
[[nodiscard]] constexpr bool kernel_takes_rows(int ranks, std::size_t row_bytes) noexcept {
  return static_cast<std::size_t>(ranks) <= max_reduce_operands && row_bytes % vector_bytes == 0;
}

/// Whether, between two ranks, the GEMMs of the own rows add what the peer has sent, so that no sum follows. Not with
/// beta, since they cannot add to y as well; nor with an activation, before which libraries round a sum; nor with one
/// group, since its GEMM would have to wait for everything that the peer sends.
[[nodiscard]] inline bool own_product_adds(const LinearSpec& spec, int ranks, int groups) noexcept {
  return ranks == 2 && spec.beta == 0.0F && spec.activation == Activation::none && groups > 1;
}

/// The function that runs the algorithm `chosen`; `functions` are in the order of `names`. Does not compile unless
/// there is one for each name.
template <typename Function, std::size_t count>
[[nodiscard]] Function algorithm_named(std::string_view chosen, const std::array<std::string_view, count>& names,
                                       const Function (&functions)[count]) {
  const auto at = std::ranges::find(names, chosen);
  if (at == names.end()) throw InvalidArgument(format("this linear plan has no algorithm '{}'", chosen));
  return functions[at - names.begin()];
}

}  // namespace tandem

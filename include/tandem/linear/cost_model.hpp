// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/device.hpp"
#include "tandem/linear/linear_spec.hpp"

namespace tandem {

/// The overlapped linear operations.
enum class LinearKind : std::uint8_t {
  all_gather_linear,
  linear_reduce_scatter,
  linear_all_reduce,
  linear_weight_gradient
};

[[nodiscard]] TANDEM_API std::string_view name(LinearKind kind) noexcept;

/// What a cost model expects, in seconds.
struct LinearPrediction {
  double t_gemm = 0;      ///< the whole local product, unsplit
  double t_comm = 0;      ///< the communication alone
  double t_sequence = 0;  ///< one after the other
  double t_pipeline = 0;  ///< overlapped, in as many groups as were asked for (of this way, or of any), or are best
  double t_stepwise = 0;  ///< the same of an all-reduce whose rounds are added up one by one; otherwise 0
  double t_growing = 0;   ///< the same in rounds that grow, or shrink
  double t_shrinking = 0;
  double t_direct = 0;  ///< with products that go straight into the peers' memory; 0 where nothing is reduced
  [[nodiscard]] double t_ideal() const noexcept { return t_gemm > t_comm ? t_gemm : t_comm; }
};

/// What a plan runs, and why.
struct LinearChoice {
  std::string algorithm;  ///< one of `linear_algorithms`
  int groups = 0;         ///< if it `has_groups`: GEMMs for the part that overlaps, or an all-reduce's rounds; else 0
  LinearPrediction predicted;
  std::string why;
  std::optional<int> sms = std::nullopt;  ///< as LinearOptions has it, and so is the next
  int leave_sms = 0;
};

/// The algorithms of an operation, as LinearOptions::algorithm names them:
///   pipeline  chunks travel, by copy engines where there are some, while the next or the last ones are multiplied; an
///             all-reduce's in rounds, each with a part of every rank's rows, whose sums are made behind the products
///             for peers of the next round, which have left by then: a slow link does not wait for sums
///   stepwise  of an all-reduce: the same rounds, but each is added up before the next one begins, so that its sums
///             travel beside all of the next: for where products take longer than the link
///   growing   stepwise in rounds of 1 : 3 : 5 and so on, so that the link starts early: for where it takes longer
///   shrinking the other way round, so that little is left to be added up and taken behind the last product
///   direct    of the operations that reduce: products store their results straight into their owners' memory
///   sequence  one after the other
[[nodiscard]] TANDEM_API std::vector<std::string> linear_algorithms(LinearKind kind);

/// Whether the algorithm cuts what travels into groups, of which there can be several numbers.
[[nodiscard]] TANDEM_API bool has_groups(std::string_view algorithm) noexcept;

/// The most groups that a team's plan can have: several for each peer's shard, since its rows can leave, or arrive,
/// some before the others; but one for a shard of a gathered x that is stored transposed, whose rows do not lie
/// together. An all-reduce's are rounds.
[[nodiscard]] TANDEM_API int most_groups(LinearKind kind, const LinearSpec& spec, int ranks) noexcept;

/// Chooses by the device's constants, unless `options` says. `spec` is as the plan of that kind takes it, but of a
/// weight gradient k is the columns that travel: if those are dy's, n and k change places. Needs no team, so it also
/// answers what would run elsewhere. Throws InvalidArgument for an unknown algorithm or an impossible
/// number of groups, listing what is possible, for less than one rank, negative sizes, and options or a gradient's
/// dtype that no plan of this kind takes. What else its plan refuses is not looked at.
[[nodiscard]] TANDEM_API LinearChoice choose(LinearKind kind, const LinearSpec& spec, int ranks, const CostTable& costs,
                                             const LinearOptions& options = {});

/// A choice in words: algorithm, groups, why, predicted times.
[[nodiscard]] TANDEM_API std::string to_string(const LinearChoice& choice);

}  // namespace tandem

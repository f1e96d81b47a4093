// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/cost_table.hpp"
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

/// The cost model's predictions, in seconds.
struct LinearPrediction {
  double t_gemm = 0;      ///< the whole local GEMM, unsplit
  double t_comm = 0;      ///< the communication alone
  double t_sequence = 0;  ///< GEMM and communication one after the other
  double t_pipeline = 0;  ///< overlapped, in as many groups as were asked for (of this algorithm or any), or are best
  double t_stepwise = 0;  ///< of an all-reduce that sums each round before the next ("stepwise"); otherwise 0
  double t_growing = 0;   ///< as t_stepwise, by "growing"; next: by "shrinking"
  double t_shrinking = 0;
  double t_direct = 0;               ///< by GEMMs that store directly into the peers' memory; 0 if nothing is reduced
  const char* of_another = nullptr;  ///< as in CostTable
  [[nodiscard]] double t_ideal() const noexcept { return t_gemm > t_comm ? t_gemm : t_comm; }
};

/// What a plan runs, and why.
struct LinearChoice {
  std::string algorithm;  ///< one of `linear_algorithms`
  int groups = 0;         ///< if it `has_groups`: of the overlapped part, or an all-reduce's rounds; else 0
  LinearPrediction predicted;
  std::string why;
  std::optional<int> sms = std::nullopt;  ///< copied from LinearOptions, as is the next
  int leave_sms = 0;
};

/// The algorithms of an operation, as LinearOptions::algorithm names them:
///   pipeline  chunks are transferred, by copy engines if any, while the next or previous ones are multiplied; an
///             all-reduce's in rounds, each of one part of every rank's rows; a round is summed after the GEMMs for the
///             peers' rows of the next round, whose results are being sent by then: a slow link does not wait for sums
///   stepwise  all-reduce only: the same rounds, but each is summed before the next one begins, so that its sums are
///             transferred while the whole next round computes: for GEMMs that take longer than the link
///   growing   stepwise in rounds of sizes 1 : 3 : 5 and so on, so that the link starts early: for slower links
///   shrinking the reverse, so that little remains to be summed and transferred after the last GEMM
///   direct    operations that reduce: GEMMs store their results directly into the owners' memory
///   sequence  GEMM and communication one after the other
[[nodiscard]] TANDEM_API std::vector<std::string> linear_algorithms(LinearKind kind);

/// Whether the algorithm splits the transferred data into a variable number of groups (an all-reduce: rounds).
[[nodiscard]] TANDEM_API bool has_groups(std::string_view algorithm) noexcept;

/// The most groups that a plan can have: several for each peer's shard, since parts of its rows can be sent or arrive
/// before the rest; only one per shard for a gathered x that is stored transposed, whose rows are not contiguous. For
/// an all-reduce, the most rounds. 0 for one rank.
[[nodiscard]] TANDEM_API int most_groups(LinearKind kind, const LinearSpec& spec, int ranks) noexcept;

/// Chooses by the device's cost constants, unless `options` fixes the choice. `spec` is as the plan of that kind takes
/// it, except that for a weight gradient k is the number of columns that are gathered: if they are dy's, swap n and k.
/// Needs no team, so it also answers what would run elsewhere. Throws InvalidArgument for an unknown algorithm or an
/// impossible number of groups, listing what is possible, for fewer than one rank, negative sizes, and options or a
/// gradient dtype that no plan of this kind takes. Does not check what else its plan would reject.
[[nodiscard]] TANDEM_API LinearChoice choose(LinearKind kind, const LinearSpec& spec, int ranks, const CostTable& costs,
                                             const LinearOptions& options = {});

/// A choice as text: algorithm, groups, why, predicted times.
[[nodiscard]] TANDEM_API std::string to_string(const LinearChoice& choice);

}  // namespace tandem

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
  double t_pipeline = 0;  ///< overlapped, with the number of groups that was chosen
  double t_direct = 0;    ///< with products that go straight into the peers' memory; 0 where nothing is reduced
  [[nodiscard]] double t_ideal() const noexcept { return t_gemm > t_comm ? t_gemm : t_comm; }
};

/// What a plan runs, and why.
struct LinearChoice {
  std::string algorithm;  ///< one of `linear_algorithms`
  int groups = 0;         ///< of a pipeline: GEMMs for the part that overlaps, or an all-reduce's rounds; else 0
  /// Of an all-reduce's rounds: each is added up behind its products, so that its sums travel beside all of the next
  /// one's. Otherwise behind the peers' products of the next, which have left by then: where the link takes longer than
  /// the products, it must not wait for those.
  bool sums_at_once = false;
  LinearPrediction predicted;
  std::string why;
  std::optional<int> sms = std::nullopt;  ///< as LinearOptions has it
};

/// The algorithms of an operation, as LinearOptions::algorithm names them:
///   pipeline  chunks travel, by copy engines where there are some, while the next or the last ones are multiplied
///   direct    of the operations that reduce: products store their results straight into their owners' memory
///   sequence  one after the other
[[nodiscard]] TANDEM_API std::vector<std::string> linear_algorithms(LinearKind kind);

/// The most groups that a pipeline of a team can have: several for each peer's shard, since its rows can leave, or
/// arrive, some before the others; but one for a shard of a gathered x that is stored transposed, whose rows do not lie
/// together. An all-reduce's are rounds, each with a part of every rank's rows.
[[nodiscard]] TANDEM_API int most_groups(LinearKind kind, const LinearSpec& spec, int ranks) noexcept;

/// Chooses by the device's constants, unless `options` says. `spec` is as the plan of that kind takes it. Needs no
/// team, so it also answers what would run elsewhere. Throws InvalidArgument for an unknown algorithm or an impossible
/// number of groups, listing what is possible, for less than one rank, and for negative sizes.
[[nodiscard]] TANDEM_API LinearChoice choose(LinearKind kind, const LinearSpec& spec, int ranks, const CostTable& costs,
                                             const LinearOptions& options = {});

/// A choice in words: algorithm, groups, why, predicted times.
[[nodiscard]] TANDEM_API std::string to_string(const LinearChoice& choice);

}  // namespace tandem

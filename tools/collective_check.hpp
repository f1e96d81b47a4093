// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "tools/collective_run.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {

/// What every rank gives to a collective, and must get of it: each of them knows it of all. Sums are exact in every
/// dtype.
class CollectiveData {
 public:
  CollectiveData(const CollectiveProblem& problem, std::uint64_t seed);

  [[nodiscard]] const CollectiveProblem& problem() const noexcept { return problem_; }
  [[nodiscard]] std::vector<std::byte> input(int rank) const;
  /// With `in_place`, of the last of so many runs of which each works on what the one before has left.
  [[nodiscard]] std::vector<std::byte> output(int rank, int in_place = 1) const;

 private:
  CollectiveProblem problem_;
  std::vector<std::uint64_t> keys_;  // each rank's
};

/// How many elements, of `element` bytes each, are not the same.
[[nodiscard]] std::int64_t different_elements(std::span<const std::byte> got, std::span<const std::byte> wanted,
                                              std::size_t element);

/// Collective. Queues `runs` of the collective once, from fresh input and over poison, so that no earlier result can be
/// taken for this one's, and counts the wrong elements of all ranks. `corrupted`: one of this rank's is made wrong
/// first (see `corrupts`).
[[nodiscard]] std::int64_t wrong_elements(const Team& team, CollectiveRun& run, const CollectiveData& data,
                                          const QueuedRuns& runs, StreamRef stream, bool corrupted);

}  // namespace tandem::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tandem/team/world.hpp"

namespace tandem::testing {

enum class RankKind { threads, processes };

struct RankOptions {
  RankKind kind = RankKind::processes;  ///< always threads under ThreadSanitizer, always processes for CUDA
  DeviceType device = DeviceType::host;
  std::chrono::seconds limit{120};                 ///< then ranks that still run are killed, and the test fails
  Env env = {};                                    ///< replaces each rank's environment variables
  std::vector<int> may_die = {};                   ///< processes: ranks that may be killed, and then report nothing
  std::function<void(int rank)> before_init = {};  ///< called in each rank before it joins the world
};

/// Runs `body` as each rank of a fresh world of `ranks`, and fails the current test for each rank that threw, failed an
/// expectation, crashed or did not end, and for memory that they left on GPUs (see GpuMemoryWatch). Call it before this
/// process has used a GPU: processes are forked.
void run_ranks(int ranks, const std::function<void(World&)>& body, const RankOptions& options = {});

/// Why a test may not kill one of its ranks; empty if it may.
[[nodiscard]] std::string why_no_rank_may_die();

/// The team sizes for a test that runs on all of them: 1, 2, 3, 4, 5 and 8, or those up to TANDEM_TEST_MAX_RANKS, for
/// tools that make each rank slow. Tests that choose their number of ranks themselves are not limited.
///
/// This and the two functions below throw InvalidArgument if their variable is not a valid number.
[[nodiscard]] const std::vector<int>& team_sizes();

/// This test's seed: TANDEM_TEST_SEED, or a fresh one for each test. It is printed with the test's name.
[[nodiscard]] std::uint64_t seed();

/// The fraction of its work that a stress test does: TANDEM_TEST_SCALE (default 1; CI sets 0.1).
[[nodiscard]] double stress_scale();

}  // namespace tandem::testing

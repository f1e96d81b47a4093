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
  std::chrono::seconds limit{120};  ///< then every rank is killed and the test fails
  Env env = {};                     ///< what each rank is given instead of its environment
  std::vector<int> may_die = {};    ///< processes: ranks that are meant to be killed, and then report nothing
  std::function<void(int rank)> before_init = {};  ///< processes: called in the rank's before it joins the world
};

/// Runs `body` as each rank of a fresh world of `ranks`, and fails the current test for each rank that threw, failed an
/// expectation, crashed or did not end, and for memory that they left on GPUs (see GpuMemoryWatch). Call it before this
/// process has used a GPU: processes are forked.
void run_ranks(int ranks, const std::function<void(World&)>& body, const RankOptions& options = {});

/// Why a test may not kill one of its ranks; empty if it may.
[[nodiscard]] std::string why_no_rank_may_die();

/// The team sizes of a test that takes every size: 1, 2, 3, 4, 5 and 8, or those up to TANDEM_TEST_MAX_RANKS where a
/// tool makes each rank slow. A test that says itself how many ranks it takes has as many there, too.
///
/// This and the two below throw InvalidArgument where their variable holds no such number.
[[nodiscard]] const std::vector<int>& team_sizes();

/// This run's seed: TANDEM_TEST_SEED, or a fresh one that is printed with the test's name.
[[nodiscard]] std::uint64_t seed();

/// How much a stress does: TANDEM_TEST_SCALE (1 whole; CI sets 0.1).
[[nodiscard]] double stress_scale();

}  // namespace tandem::testing

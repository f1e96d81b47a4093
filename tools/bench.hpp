// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/command.hpp"
#include "tools/operation.hpp"
#include "tools/parse.hpp"
#include "tools/ranks.hpp"
#include "tools/report.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {

/// `tandem bench`: measures an operation's performance and checks its results.
[[nodiscard]] int bench(Arguments arguments);

struct BenchOptions {
  Operation operation = Operation::all_reduce;
  RankOptions ranks;
  std::int64_t begin = 1024;  ///< bytes; the options -b, -e, -f and -i
  std::int64_t end = std::int64_t{64} << 20;
  std::int64_t factor = 2;
  std::int64_t step = 0;  ///< bytes; 0: sizes grow by `factor`
  Repetitions repetitions;
  std::optional<DType> dtype;
  Float8Options float8;
  bool tf32 = false;
  std::string algorithm = "auto";
  std::optional<int> groups;
  std::optional<int> sms;
  bool plain = false;      ///< collectives: plain tensors instead of symmetric ones
  bool symmetric = false;  ///< linear_all_reduce: into a symmetric tensor instead of a plain one
  bool in_place = false;   ///< only in place
  bool blocking = false;
  bool stats = false;
  bool wire = false;  ///< also time a plain copy to one peer, for comparison
  int root = 0;
  std::vector<Shape> shapes;
  Layouts layouts;
  Epilogue epilogue;
  GradientOptions gradient;
  std::optional<Shape> beside;  ///< collectives: the GEMM that each rank runs concurrently
  std::uint64_t seed = 1;
  std::string timeline;
  std::string plot;  ///< file for a picture of the timeline
  Report::Options report;
};

/// The sizes in bytes, from `begin` to `end`.
[[nodiscard]] std::vector<std::int64_t> bench_sizes(const BenchOptions& options);
/// The sum of all ranks' numbers. Collective.
[[nodiscard]] std::int64_t count_over_ranks(const Team& team, std::int64_t mine);
/// Collective. Writes the timeline and its picture if they were requested. Throws Error if one of them cannot be
/// written.
void write_timeline(const World& world, const BenchOptions& options);
/// "12.34", with as many digits as nccl-tests prints for a time.
[[nodiscard]] std::string time_text(double microseconds);
/// "pipeline/3", or "sequence", since a sequence has no groups.
[[nodiscard]] std::string algorithm_text(const std::string& algorithm, int groups);

/// Throws if the options do not allow a plan for this number of ranks.
void expect_linear(const BenchOptions& options, int ranks, DeviceType device);

// Collective; they return the exit code.
[[nodiscard]] int bench_collective(const World& world, const BenchOptions& options);
[[nodiscard]] int bench_beside(const World& world, const BenchOptions& options);
[[nodiscard]] int bench_linear(const World& world, const BenchOptions& options);

}  // namespace tandem::tools

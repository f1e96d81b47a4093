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

/// `tandem bench`: how fast an operation is, and whether it is right.
[[nodiscard]] int bench(Arguments arguments);

struct BenchOptions {
  Operation operation = Operation::all_reduce;
  RankOptions ranks;
  std::int64_t begin = 1024;  ///< bytes, as -b, -e, -f and -i say
  std::int64_t end = std::int64_t{64} << 20;
  std::int64_t factor = 2;
  std::int64_t step = 0;  ///< bytes; 0: by the factor
  Repetitions repetitions;
  std::optional<DType> dtype;
  bool tf32 = false;
  std::string algorithm = "auto";
  std::optional<int> groups;
  std::optional<int> sms;
  bool plain = false;      ///< collectives: plain tensors instead of symmetric ones
  bool symmetric = false;  ///< linear_all_reduce: into a symmetric tensor instead of a plain one
  bool in_place = false;   ///< in place alone
  bool blocking = false;
  bool stats = false;
  bool wire = false;  ///< hold it against a copy to one peer
  int root = 0;
  std::vector<Shape> shapes;
  Layouts layouts;
  Epilogue epilogue;
  GradientOptions gradient;
  std::optional<Shape> beside;  ///< collectives: the product that each rank computes beside them
  std::uint64_t seed = 1;
  std::string timeline;
  std::string plot;  ///< a picture of it
  Report::Options report;
};

/// The sizes in bytes from begin to end.
[[nodiscard]] std::vector<std::int64_t> bench_sizes(const BenchOptions& options);
/// The sum of all ranks' numbers. Collective.
[[nodiscard]] std::int64_t count_over_ranks(const Team& team, std::int64_t mine);
/// Collective. Writes the timeline and its picture, as far as they were asked for. Throws Error where one of them
/// cannot be written.
void write_timeline(const World& world, const BenchOptions& options);
/// "12.34", in as many digits as nccl-tests shows of a time.
[[nodiscard]] std::string time_text(double microseconds);
/// "pipeline/3", or "sequence", which has no groups.
[[nodiscard]] std::string algorithm_text(const std::string& algorithm, int groups);

/// Throws if no plan of so many ranks runs as the options say.
void expect_linear(const BenchOptions& options, int ranks, DeviceType device);

// Collective; return the exit code.
[[nodiscard]] int bench_collective(const World& world, const BenchOptions& options);
[[nodiscard]] int bench_beside(const World& world, const BenchOptions& options);
[[nodiscard]] int bench_linear(const World& world, const BenchOptions& options);

}  // namespace tandem::tools

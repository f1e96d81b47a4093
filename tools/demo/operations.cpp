// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/operations.hpp"

#include "tandem/device/stream.hpp"

#include "base/format.hpp"

namespace tandem::tools {
namespace {

constexpr int warmup = 5;

std::vector<TimedOperation> operations_of(const language_model::ModelOptions& options, int ranks) {
  const Shape up{options.tokens, options.width, options.hidden};
  const Shape down{options.tokens, options.hidden, options.width};
  const auto operation = [&](const char* name, LinearKind kind, const Shape& shape, Layout weight) {
    return TimedOperation{
        .name = name,
        .problem =
            {.kind = kind, .shape = shape, .ranks = ranks, .dtype = options.dtype, .weight_layout = weight, .key = 1},
        .choice = {},
        .times = {}};
  };
  return {
      operation("up: forward", LinearKind::all_gather_linear, up, Layout::normal),
      operation("down: forward", LinearKind::linear_reduce_scatter, down, Layout::normal),
      operation("down: gradient of x", LinearKind::all_gather_linear, up, Layout::transposed),
      operation("up: gradient of x", LinearKind::linear_reduce_scatter, down, Layout::transposed),
      operation("up: gradient of W", LinearKind::linear_weight_gradient, up, Layout::normal),
  };
}

}  // namespace

std::vector<TimedOperation> time_operations(const World& world, const language_model::ModelOptions& options,
                                            int iterations) {
  const Team& team = world.team();
  const Stream stream(world.device());
  Timing timing(team, stream, false);
  std::vector<TimedOperation> operations = operations_of(options, team.size());
  for (TimedOperation& operation : operations) {
    const LinearRun run(team, operation.problem);
    LinearPlanOfAnyKind overlap(team, operation.problem, {});
    LinearPlanOfAnyKind sequence(team, operation.problem, {.algorithm = "sequence", .groups = std::nullopt});
    operation.choice = overlap.choice();
    const Repetitions repetitions{.iterations = iterations, .warmup = warmup};
    operation.times =
        measure_linear(team, operation.problem, timing.queued([&] { run(overlap, stream); }, repetitions),
                       timing.queued([&] { run(sequence, stream); }, repetitions), timing, stream, repetitions);
  }
  return operations;
}

std::vector<std::string> table(const std::vector<TimedOperation>& operations) {
  std::vector<std::string> lines{format("{:<20} {:<22} {:<11} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8}", "times in us",
                                        "operation", "algorithm", "t_gemm", "t_comm", "t_seq", "t_overlap", "Ti/To",
                                        "exposed")};
  for (const TimedOperation& operation : operations) {
    const LinearChoice& choice = operation.choice;
    const OverlapTimes& times = operation.times;
    const std::string algorithm =
        choice.groups > 0 ? format("{}/{}", choice.algorithm, choice.groups) : choice.algorithm;
    lines.push_back(format("{:<20} {:<22} {:<11} {:>8.1f} {:>8.1f} {:>8.1f} {:>9.1f} {:>8.3f} {:>8.1f}", operation.name,
                           name(operation.problem.kind), algorithm, times.gemm * 1e6, times.comm * 1e6,
                           times.sequence * 1e6, times.overlap * 1e6, times.ideal() / times.overlap,
                           times.exposed() * 1e6));
  }
  return lines;
}

}  // namespace tandem::tools

// SPDX-License-Identifier: Apache-2.0
// Attention, forward and backward, to a sequence that the ranks share: checked, and timed beside the computation alone,
// the communication alone, and both one after the other.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tandem/attention/context_parallel_attention.hpp"
#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/world.hpp"

#include "common/over_ranks.hpp"
#include "common/timeline.hpp"
#include "common/timing.hpp"
#include "long_sequence/collectives.hpp"
#include "long_sequence/local_blocks.hpp"
#include "long_sequence/sequence.hpp"
#include "long_sequence/whole_sequence.hpp"

namespace tandem::long_sequence {
namespace {

constexpr const char* examples = R"(
Examples:
  tandem run -n 4 -- build/release/examples/long_sequence/long_sequence
  tandem run -n 4 -- build/release/examples/long_sequence/long_sequence --mask window --window 100
  tandem run -n 4 -- build/cuda/examples/long_sequence/long_sequence --tokens 32768 --heads 64 --kv-heads 8 --head-dim 128

t_compute: the rank's local attentions, unmerged; t_comm: keys and values are gathered and, backward, their gradients
summed; t_seq: both, one after the other; t_overlap: ContextParallelAttention. For a window only t_comm and t_overlap.
#wrong counts elements of out, and of dq, dk and dv, that differ from a local attention to the whole sequence.
Microseconds; medians of the slowest rank's times. TFLOP/s: of t_overlap and one rank, on average.)";

enum class Mask : std::uint8_t { causal, full, window };

const std::map<std::string, DType> dtypes{{"f32", f32}, {"f16", f16}, {"bf16", bf16}};
const std::map<std::string, Mask> masks{{"causal", Mask::causal}, {"full", Mask::full}, {"window", Mask::window}};
const std::map<std::string, SequenceSplit> splits{{"zigzag", SequenceSplit::zigzag},
                                                  {"contiguous", SequenceSplit::contiguous}};

struct Arguments {
  ContextParallelSpec spec{.tokens = 1024, .heads = 4, .kv_heads = 2, .head_dim = 32};
  Mask mask = Mask::causal;
  std::int64_t window = 0;
  int iterations = 10;
  int warmup = 3;
  int rest = 0;
  std::string json;
  std::string timeline;
};

AttentionBand band_of(const Arguments& arguments) {
  switch (arguments.mask) {
    case Mask::causal: return {.right = 0};
    case Mask::full: return {};
    case Mask::window: return {.left = arguments.window - 1, .right = 0};
  }
  return {};
}

std::string described(const Arguments& arguments) {
  switch (arguments.mask) {
    case Mask::causal: return "causal";
    case Mask::full: return "full";
    case Mask::window: return "window of " + std::to_string(arguments.window);
  }
  return {};
}

/// What is timed of one direction.
struct Direction {
  const char* name;
  std::function<void()> compute{};  ///< empty if unknown
  std::function<void()> communicate;
  std::function<void()> in_sequence{};
  std::function<void()> overlapped;
  double flops;  ///< of all ranks
  std::int64_t wrong;
};

/// Seconds.
struct Times {
  std::optional<double> compute;
  double communication;
  std::optional<double> sequence;
  double overlap;
};

/// Collective. All directions' bodies in turns.
std::vector<Times> timed(examples::Timing& timing, const std::vector<Direction>& directions,
                         const Arguments& arguments) {
  const auto nothing = [] {};
  std::vector<examples::Timing::Body> bodies;
  for (const Direction& each : directions) {
    for (const auto& run : {each.compute, each.communicate, each.in_sequence, each.overlapped}) {
      if (run) bodies.push_back({nothing, run});
    }
  }
  const std::vector<double> seconds = timing.in_turns(bodies, arguments.warmup, arguments.iterations);
  std::vector<Times> times;
  auto next = seconds.begin();
  for (const Direction& each : directions) {
    Times& found = times.emplace_back();
    if (each.compute) found.compute = *next++;
    found.communication = *next++;
    if (each.in_sequence) found.sequence = *next++;
    found.overlap = *next++;
  }
  return times;
}

std::string fixed(double value, int decimals) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string microseconds(std::optional<double> seconds) { return seconds ? fixed(*seconds * 1e6, 1) : "-"; }

void print_row(const std::string& name, const std::vector<std::string>& columns, const std::string& wrong) {
  std::printf("%-8s", name.c_str());
  for (const std::string& column : columns) std::printf(" %10s", column.c_str());
  std::printf(" %8s\n", wrong.c_str());
}

void print(const Direction& direction, const Times& times, double teraflops) {
  std::vector<std::string> columns(7, "-");
  if (direction.wrong == 0) {  // no speed of a wrong result
    columns = {microseconds(times.compute),
               microseconds(times.communication),
               microseconds(times.sequence),
               microseconds(times.overlap),
               "-",
               "-",
               fixed(teraflops, 3)};
    if (times.compute) {
      const double ideal = std::max(*times.compute, times.communication);
      columns[4] = microseconds(times.overlap - ideal);
      columns[5] = fixed(ideal / times.overlap, 3);
    }
  }
  print_row(direction.name, columns, std::to_string(direction.wrong));
}

nlohmann::json document_of(const Direction& direction, const Times& times, double teraflops) {
  const auto us = [](std::optional<double> seconds) {
    return seconds ? nlohmann::json(*seconds * 1e6) : nlohmann::json(nullptr);
  };
  return {{"compute_us", us(times.compute)},
          {"communication_us", us(times.communication)},
          {"sequence_us", us(times.sequence)},
          {"overlap_us", us(times.overlap)},
          {"teraflops", teraflops},
          {"wrong", direction.wrong}};
}

/// Collective: over all ranks.
Wrong count_wrong(const Sequence& sequence, StreamRef stream) {
  const Wrong wrong = WholeSequence(sequence, stream).count_wrong(sequence);
  return {examples::summed(sequence.team(), wrong.forward), examples::summed(sequence.team(), wrong.backward)};
}

void report(const World& world, const Arguments& arguments, const std::vector<Direction>& directions,
            const std::vector<Times>& times) {
  const ContextParallelSpec& spec = arguments.spec;
  const int ranks = world.size();
  std::printf(
      "# attention to %lld tokens, %s, split %s; batch %lld, %lld heads of %lld, %lld of keys; %s%s; %d ranks, %s\n",
      static_cast<long long>(spec.tokens), described(arguments).c_str(), name(spec.split),
      static_cast<long long>(spec.batch), static_cast<long long>(spec.heads), static_cast<long long>(spec.head_dim),
      static_cast<long long>(spec.kv_heads), std::string(name(spec.dtype)).c_str(),
      spec.deterministic ? ", deterministic" : "", ranks, world.device().describe().c_str());
  std::printf("# us, medians of the slowest rank\n");
  print_row("", {"t_compute", "t_comm", "t_seq", "t_overlap", "exposed", "T_i/t_o", "TFLOP/s"}, "#wrong");
  nlohmann::json document{{"tokens", spec.tokens},
                          {"batch", spec.batch},
                          {"heads", spec.heads},
                          {"kv_heads", spec.kv_heads},
                          {"head_dim", spec.head_dim},
                          {"dtype", name(spec.dtype)},
                          {"mask", described(arguments)},
                          {"split", name(spec.split)},
                          {"deterministic", spec.deterministic},
                          {"ranks", ranks},
                          {"rest", arguments.rest}};
  for (std::size_t i = 0; i < directions.size(); ++i) {
    const double teraflops = directions[i].flops / ranks / times[i].overlap * 1e-12;
    print(directions[i], times[i], teraflops);
    document[directions[i].name] = document_of(directions[i], times[i], teraflops);
  }
  std::fflush(stdout);
  if (!arguments.json.empty()) std::ofstream(arguments.json) << document.dump(2) << "\n";
}

int run(const World& world, const Arguments& arguments) {
  const Team& team = world.team();
  const ContextParallelSpec& spec = arguments.spec;
  const Stream stream(world.device());
  const Sequence sequence(team, spec);
  ContextParallelAttention attention(team, spec);
  sequence.forward(attention, stream);
  sequence.backward(attention, stream);
  const Wrong wrong = count_wrong(sequence, stream);

  Collectives collectives(sequence);
  std::optional<LocalBlocks> blocks;
  if (LocalBlocks::know(spec.band)) blocks.emplace(sequence, collectives);
  const double products =
      2.0 * static_cast<double>(visible_pairs(spec.tokens, spec.tokens, spec.band) * spec.batch * spec.heads) *
      static_cast<double>(spec.head_dim + spec.dim_of_values());
  // Backward has five products where forward has two.
  std::vector<Direction> directions{{.name = "forward",
                                     .communicate = [&] { collectives.gather(sequence, stream); },
                                     .overlapped = [&] { sequence.forward(attention, stream); },
                                     .flops = products,
                                     .wrong = wrong.forward},
                                    {.name = "backward",
                                     .communicate =
                                         [&] {
                                           collectives.gather(sequence, stream);
                                           collectives.sum_gradients(stream);
                                         },
                                     .overlapped = [&] { sequence.backward(attention, stream); },
                                     .flops = 2.5 * products,
                                     .wrong = wrong.backward}};
  if (blocks) {
    directions[0].compute = [&] { blocks->forward(stream); };
    directions[0].in_sequence = [&] {
      collectives.gather(sequence, stream);
      blocks->forward(stream);
    };
    directions[1].compute = [&] { blocks->backward(stream); };
    directions[1].in_sequence = [&] {
      collectives.gather(sequence, stream);
      blocks->backward(stream);
      collectives.sum_gradients(stream);
    };
    collectives.gather(sequence, stream);  // what the first computation reads
  }
  examples::Timing timing(team, stream, std::chrono::milliseconds(arguments.rest));
  const std::vector<Times> times = timed(timing, directions, arguments);
  if (!arguments.timeline.empty()) {
    examples::write_timeline(world, stream, arguments.timeline, [&] {
      sequence.forward(attention, stream);
      sequence.backward(attention, stream);
    });
  }
  if (team.rank() == 0) report(world, arguments, directions, times);
  team.barrier();  // launchers stop the others once a rank fails: not before the report
  return wrong == Wrong{} ? 0 : 1;
}

/// An option for one of the values that have names.
template <typename T>
CLI::Option* add_named(CLI::App& app, const std::string& option, T& value, const std::map<std::string, T>& names,
                       const std::string& description) {
  const auto set = [&](const std::string& name) { value = names.at(name); };
  return app.add_option_function<std::string>(option, set, description)->check(CLI::IsMember(names));
}

}  // namespace
}  // namespace tandem::long_sequence

int main(int argc, char** argv) try {
  using namespace tandem::long_sequence;
  Arguments arguments;
  CLI::App app("Attention, forward and backward, to a sequence that the ranks share, checked and timed.");
  app.footer(examples);
  tandem::ContextParallelSpec& spec = arguments.spec;
  const auto positive = CLI::PositiveNumber;
  app.add_option("--tokens", spec.tokens, "tokens of the whole sequence")->check(positive)->capture_default_str();
  app.add_option("--batch", spec.batch, "sequences")->check(positive)->capture_default_str();
  app.add_option("--heads", spec.heads, "heads of queries")->check(positive)->capture_default_str();
  app.add_option("--kv-heads", spec.kv_heads, "heads of keys and values: divides the heads")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--head-dim", spec.head_dim, "features of a head")->check(positive)->capture_default_str();
  const auto* const dtype =
      add_named(app, "--dtype", spec.dtype, dtypes, "of all tensors (default: f32 on the host, bf16 on CUDA)");
  add_named(app, "--mask", arguments.mask, masks, "which keys a query sees (default: causal)");
  const auto* const window = app.add_option("--window", arguments.window,
                                            "keys that a query sees with --mask window, the last of them its own")
                                 ->check(positive);
  add_named(app, "--split", spec.split, splits, "of the tokens (default: zigzag)");
  app.add_flag("--deterministic", spec.deterministic, "gradients have the same bits in every run");
  app.add_option("--iters", arguments.iterations, "timed runs")->check(positive)->capture_default_str();
  app.add_option("--warmup", arguments.warmup, "runs before them")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rest", arguments.rest, "milliseconds in which the devices rest in front of each run")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--timeline", arguments.timeline,
                 "write the timeline of one forward and one backward to this file, for ui.perfetto.dev");
  app.add_option("--json", arguments.json, "also write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  if ((arguments.mask == Mask::window) == window->empty()) {
    throw tandem::InvalidArgument("--mask window needs --window N, and no other mask takes it");
  }
  spec.band = band_of(arguments);
  const tandem::World world = tandem::init();
  if (dtype->empty()) spec.dtype = world.device().id().type == tandem::DeviceType::cuda ? tandem::bf16 : tandem::f32;
  return run(world, arguments);
} catch (const std::exception& error) {
  std::fprintf(stderr, "long_sequence: %s\n", error.what());
  return 1;
}

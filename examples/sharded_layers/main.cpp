// SPDX-License-Identifier: Apache-2.0
// Training steps, without an optimizer, of layers whose parameters are sharded over all ranks: checked, and timed
// beside the computation alone, the communication alone, and both one after the other.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tandem/device/device.hpp"
#include "tandem/sharded/sharded_parameters.hpp"
#include "tandem/team/world.hpp"

#include "common/over_ranks.hpp"
#include "common/timeline.hpp"
#include "common/timing.hpp"
#include "sharded_layers/layers.hpp"
#include "sharded_layers/reference.hpp"
#include "sharded_layers/step.hpp"

namespace tandem::sharded_layers {
namespace {

constexpr const char* examples = R"(
Examples:
  tandem run -n 4 -- build/release/examples/sharded_layers/sharded_layers
  tandem run -n 4 -- build/cuda/examples/sharded_layers/sharded_layers --layers 8 --hidden 8192 --mlp 28672 --tokens 4096

t_compute: the same layers with every weight whole on each rank; t_comm: gathers and sums alone; t_seq: the next layer
is gathered, and the last one's gradients are summed, while nothing is computed; t_overlap: beside the layers' computation.
#wrong counts gradients that differ from those of whole layers, summed by all_reduces in f32.
Microseconds; medians of the slowest rank's times.)";

struct Arguments {
  Sizes sizes{.layers = 4, .tokens = 64, .hidden = 128, .mlp = 512};
  int iterations = 10;
  int warmup = 3;
  int rest = 0;
  int buffers = 2;
  std::optional<int> sms;
  std::string json;
  std::string timeline;
};

const std::map<std::string, DType> dtypes{{"f32", f32}, {"f16", f16}, {"bf16", bf16}};

void report(const World& world, const Arguments& arguments, const std::vector<double>& seconds, std::int64_t wrong) {
  const Sizes& sizes = arguments.sizes;
  const double compute = seconds[0] * 1e6;
  const double communication = seconds[1] * 1e6;
  const double sequence = seconds[2] * 1e6;
  const double overlap = seconds[3] * 1e6;
  const double ideal = std::max(compute, communication);
  std::printf(
      "# %d layers of hidden %lld, MLP %lld; %lld tokens a rank; %s, shards in %s, gradients in %s; %d ranks, %s\n",
      sizes.layers, static_cast<long long>(sizes.hidden), static_cast<long long>(sizes.mlp),
      static_cast<long long>(sizes.tokens), std::string(name(sizes.dtype)).c_str(),
      std::string(name(sizes.shard_dtype)).c_str(), std::string(name(sizes.gradient_dtype)).c_str(), world.size(),
      world.device().describe().c_str());
  std::printf("# %s\n%10s %10s %10s %10s %10s %8s %8s\n", "us, medians of the slowest rank", "t_compute", "t_comm",
              "t_seq", "t_overlap", "exposed", "T_i/t_o", "#wrong");
  if (wrong == 0) {
    std::printf("%10.1f %10.1f %10.1f %10.1f %10.1f %8.3f %8d\n", compute, communication, sequence, overlap,
                overlap - ideal, ideal / overlap, 0);
  } else {  // no speed of a wrong result
    std::printf("%10s %10s %10s %10s %10s %8s %8lld\n", "-", "-", "-", "-", "-", "-", static_cast<long long>(wrong));
  }
  std::fflush(stdout);
  if (!arguments.json.empty()) {
    const nlohmann::json document{{"layers", sizes.layers},
                                  {"hidden", sizes.hidden},
                                  {"mlp", sizes.mlp},
                                  {"tokens", sizes.tokens},
                                  {"dtype", name(sizes.dtype)},
                                  {"gradient_dtype", name(sizes.gradient_dtype)},
                                  {"shard_dtype", name(sizes.shard_dtype)},
                                  {"ranks", world.size()},
                                  {"rest", arguments.rest},
                                  {"compute_us", compute},
                                  {"communication_us", communication},
                                  {"sequence_us", sequence},
                                  {"overlap_us", overlap},
                                  {"wrong", wrong}};
    std::ofstream(arguments.json) << document.dump(2) << "\n";
  }
}

int run(const World& world, const Arguments& arguments) {
  const Team& team = world.team();
  const Sizes& sizes = arguments.sizes;
  const Stream stream(world.device());
  Layers layers(world.shared_device(), sizes, 1000 + 2 * static_cast<unsigned>(team.rank()));
  const WholeLayers whole(team, sizes);
  ShardedOptions options{.buffers = arguments.buffers, .sms = arguments.sms};
  ShardedParameters overlapped = sharded(whole, options, stream);
  options.buffers = 1;
  ShardedParameters in_sequence = sharded(whole, options, stream);

  std::int64_t wrong = 0;
  for (ShardedParameters* each : {&overlapped, &in_sequence}) {
    step(*each, &layers, stream);
    wrong += whole.count_wrong(*each, layers, stream);
  }
  wrong = examples::summed(team, wrong);

  examples::Timing timing(team, stream, std::chrono::milliseconds(arguments.rest));
  const auto nothing = [] {};
  const std::vector<double> seconds = timing.in_turns({{nothing, [&] { whole.step(layers, stream); }},
                                                       {nothing, [&] { step(overlapped, nullptr, stream); }},
                                                       {nothing, [&] { step(in_sequence, &layers, stream); }},
                                                       {nothing, [&] { step(overlapped, &layers, stream); }}},
                                                      arguments.warmup, arguments.iterations);
  if (!arguments.timeline.empty()) {
    examples::write_timeline(world, stream, arguments.timeline, [&] { step(overlapped, &layers, stream); });
  }
  if (team.rank() == 0) report(world, arguments, seconds, wrong);
  team.barrier();  // launchers stop the others once a rank fails: not before the report
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tandem::sharded_layers

int main(int argc, char** argv) try {
  using namespace tandem::sharded_layers;
  Arguments arguments;
  CLI::App app("Training steps of layers whose parameters are sharded over all ranks, checked and timed.");
  app.footer(examples);
  Sizes& sizes = arguments.sizes;
  const auto positive = CLI::PositiveNumber;
  const auto transform = CLI::CheckedTransformer(dtypes);
  app.add_option("--layers", sizes.layers, "MLPs, one behind the other")->check(positive)->capture_default_str();
  app.add_option("--tokens", sizes.tokens, "tokens of each rank")->check(positive)->capture_default_str();
  app.add_option("--hidden", sizes.hidden, "features between the MLPs")->check(positive)->capture_default_str();
  app.add_option("--mlp", sizes.mlp, "features inside of an MLP")->check(positive)->capture_default_str();
  const auto* const dtype =
      app.add_option("--dtype", sizes.dtype, "f32, f16 or bf16 (default: f32 on the host, bf16 on CUDA)")
          ->transform(transform);
  const auto* const gradients =
      app.add_option("--gradient-dtype", sizes.gradient_dtype, "of weights' gradients: the dtype (default) or f32")
          ->transform(transform);
  const auto* const shards =
      app.add_option("--shard-dtype", sizes.shard_dtype, "of the shards: the dtype (default) or f32")
          ->transform(transform);
  app.add_option("--buffers", arguments.buffers, "gathered layers at once")->check(positive)->capture_default_str();
  app.add_option("--sms", arguments.sms, "CUDA: multiprocessors for a sum (default: as many as is fastest)");
  app.add_option("--iters", arguments.iterations, "timed steps")->check(positive)->capture_default_str();
  app.add_option("--warmup", arguments.warmup, "steps before them")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rest", arguments.rest, "milliseconds in which the devices rest in front of each step")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--timeline", arguments.timeline, "write a step's timeline to this file, for ui.perfetto.dev");
  app.add_option("--json", arguments.json, "also write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  const tandem::World world = tandem::init();
  const bool on_gpu = world.device().id().type == tandem::DeviceType::cuda;
  if (dtype->empty()) sizes.dtype = on_gpu ? tandem::bf16 : tandem::f32;
  if (gradients->empty()) sizes.gradient_dtype = sizes.dtype;
  if (shards->empty()) sizes.shard_dtype = sizes.dtype;
  return run(world, arguments);
} catch (const std::exception& error) {
  std::fprintf(stderr, "sharded_layers: %s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
#include "tools/bench.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <limits>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/launch.hpp"

#include "base/format.hpp"
#include "tools/collective_run.hpp"
#include "tools/options.hpp"
#include "tools/provenance.hpp"
#include "tools/timeline_plot.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

constexpr const char* help_of_bench = R"(
Collectives print the columns of nccl-tests. SIZE is the output of all_gather, the input of reduce_scatter and
all_to_all, and the whole message of all_reduce and broadcast, each of one rank. The first line names the tensors: those
that the algorithm takes; for all_to_all without --algorithm, a symmetric output. algbw = size / time; busbw = algbw
times
  2 (n - 1) / n   all_reduce
  (n - 1) / n     all_gather, reduce_scatter, all_to_all
  1               broadcast
Linear operations print, for each --shape M,N,K (M tokens of all ranks, N outputs, K inputs; N is split over ranks where
x is gathered, K where y is reduced): t_gemm, the best single GEMM; t_comm, the collective alone; t_seq, one after the
other; t_overlap; T_ideal = max(t_gemm, t_comm); T_i/t_o = T_ideal / t_overlap; exposed = t_overlap - T_ideal; hidden =
(t_seq - t_overlap) / min(t_gemm, t_comm), left out for a sequence. All are measured in turns. T_i/t_o above 1, exposed
below 0 and hidden above 100 % are noise, or parts that run faster than the whole.
On CUDA the clocks of the GPUs are in a comment at the end, and in "sm_mhz" of each row of JSON.
--wire also measures, in turns with the rest, a copy from each rank to the next one: of a shard (for broadcast, of the
whole message), on CUDA by copy engines. Comments and JSON then have its rate; for collectives busbw divided by that
rate; for linear operations t_wire, the collective's bytes (its size times the factor above) at that rate, and
max(t_gemm, t_wire) / t_overlap.
--beside M,N,K runs a collective concurrently with a GEMM of that size on each rank (bulk overlap, even where a sequence
would be faster), and prints the columns of linear operations; #wrong then includes elements of the GEMM's result that
differ from those of the GEMM alone.
Times are medians over iterations, of the slowest rank; with -G over launches of the graph, divided by its number of
iterations. #wrong counts elements that differ from the reference, in poisoned tensors: in a run before the timed
iterations or, if that is right, in one after them; with -G in a launch of the timed graph, and for collectives also in
a single run. Large linear operations are compared in up to 64 x 64 elements of each rank's output.
For a wrong result no time is printed, and the exit code is 1.

Examples:
  tandem bench all_reduce -n 4 -b 1K -e 64M -f 2
  tandem bench all_reduce -n 4 --device cuda -d bf16 -b 1K -e 64M -f 4 --iters 50 -G 20
  tandem bench all_gather -n 4 --device cuda -b 16M -e 64M -f 4 --beside 8192,8192,8192 -d f16
  tandem bench linear_all_reduce -n 4 --device cuda --shape 8192,8192,8192 --wire
  tandem bench all_gather_linear -n 4 --device host --shape 512,2048,1024 --link 50us,1GB/s --timeline t.json --plot t.png
  tandem bench all_gather_linear -n 4 --shape 512,2048,1024 --bias --activation gelu_erf --auxiliary output
  tandem bench linear_reduce_scatter -n 4 --shape 512,1024,2048 --layout NN    # its gradient of x
)";

bool may_be_symmetric(Operation operation) {
  return is_collective(operation) || operation == Operation::linear_all_reduce;
}

constexpr std::array<OptionOfSome, 9> bench_options_of_some{
    {{"-b", is_collective, "collectives"},
     {"-e", is_collective, "collectives"},
     {"-f", is_collective, "collectives"},
     {"-i", is_collective, "collectives"},
     {"--plain", is_collective, "collectives"},
     {"--symmetric", may_be_symmetric, "collectives and linear_all_reduce"},
     {"--in-place", is_collective, "collectives"},
     {"--beside", is_collective, "collectives"},
     {"--root", is_broadcast, "broadcast"}}};

void check(const BenchOptions& options, const CLI::App& app) {
  expect_taken(options.operation, app, bench_options_of_some);
  if (app.count("-f") != 0 && app.count("-i") != 0) {
    throw InvalidArgument("-f and -i were given; allowed: one of them, since sizes go up by a factor or by a step");
  }
  if (options.begin > options.end) {
    throw InvalidArgument(format("-b is {} and -e is {}; sizes go up from -b to -e", bytes_to_string(options.begin),
                                 bytes_to_string(options.end)));
  }
  if (is_collective(options.operation) && options.begin == 0 && options.end != 0 && options.step == 0) {
    throw InvalidArgument(format("-b is 0 and -e is {}; from 0 no factor goes up; allowed: -i with them, or -e 0",
                                 bytes_to_string(options.end)));
  }
  expect_options(options.operation, options.algorithm, options.dtype, options.tf32);
  expect_epilogue(options.epilogue);
  const DType dtype = options.dtype.value_or(f32);
  if (options.beside && dtype != f32 && dtype != f16 && dtype != bf16) {
    throw InvalidArgument(format("-d is {}; with --beside it is f32, f16 or bf16", name(dtype)));
  }
  if (options.wire && options.beside) {
    throw InvalidArgument("--wire and --beside were given; allowed: one of them");
  }
  if (options.in_place && options.operation == Operation::all_to_all) {
    throw InvalidArgument("--in-place: all_to_all has no form in place");
  }
  expect_one_stdout(options.report);
  expect_apart({{"--timeline", options.timeline}, {"--plot", options.plot}, {"--json", options.report.json}});
  if (!options.timeline.empty() && options.repetitions.graph_launches != 0) {
    throw InvalidArgument(
        "--timeline and -G were given; allowed: one of them, since what runs in a graph has no trace");
  }
  if (!options.plot.empty() && options.timeline.empty()) {
    throw InvalidArgument(
        format("--plot {} was given without --timeline, which it draws; allowed: both", options.plot));
  }
}

/// Whether collectives run on plain tensors: if requested, or if the algorithm does not support symmetric ones.
bool on_plain_tensors(const BenchOptions& options, bool plain, bool symmetric) {
  if (is_linear(options.operation)) return false;
  const auto has = [&](bool is_symmetric) {
    return form_for(options.operation, options.algorithm, is_symmetric, false) != nullptr;
  };
  if ((plain && !has(false)) || (symmetric && !has(true))) {
    throw InvalidArgument(format("--algorithm {} of {} takes {} tensors alone; {} was given", options.algorithm,
                                 name(options.operation), plain ? "symmetric" : "plain",
                                 plain ? "--plain" : "--symmetric"));
  }
  return plain || !has(true);
}

/// Checks the options against a world of `ranks` ranks on devices of this type.
void expect_possible(const BenchOptions& options, int ranks, DeviceType device) {
  if (options.root >= ranks) {
    throw InvalidArgument(format("--root is {}; allowed: a rank from 0 to {}", options.root, ranks - 1));
  }
  if (options.repetitions.graph_launches > 0 && device != DeviceType::cuda) {
    throw InvalidArgument(format("-G is {}, and the ranks' devices are the {}'s; CUDA graphs need --device cuda",
                                 options.repetitions.graph_launches, name(device)));
  }
  expect_sms(options.sms, device);
  if (is_linear(options.operation)) expect_linear(options, ranks, device);
  if (options.wire && ranks == 1) {
    throw InvalidArgument("--wire was given to one rank, which has no peer; allowed: two ranks and more");
  }
}

}  // namespace

std::vector<std::int64_t> bench_sizes(const BenchOptions& options) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = options.begin; size <= options.end;) {
    sizes.push_back(size);
    if (options.step != 0 || size == 0) {
      if (options.step == 0 || size > std::numeric_limits<std::int64_t>::max() - options.step) break;
      size += options.step;
    } else {
      if (size > std::numeric_limits<std::int64_t>::max() / options.factor) break;
      size *= options.factor;
    }
  }
  return sizes;
}

std::int64_t count_over_ranks(const Team& team, std::int64_t mine) {
  std::int64_t all = 0;
  for (const auto& rank : gather_numbers(team, {static_cast<double>(mine)})) all += static_cast<std::int64_t>(rank[0]);
  return all;
}

std::string algorithm_text(const std::string& algorithm, int groups) {
  return groups > 0 ? format("{}/{}", algorithm, groups) : algorithm;
}

void write_timeline(const World& world, const BenchOptions& options) {
  if (options.timeline.empty()) return;
  write_timeline(world, options.timeline, setting(world));
  if (options.plot.empty() || world.rank() != 0) return;
  const std::string title = format("tandem bench {}, {}", name(options.operation), setting(world));
  if (const std::string why = plot_timelines({options.timeline}, options.plot, title); !why.empty()) {
    throw Error(format("--plot {} was not drawn: {}; --timeline {} was written", options.plot, why, options.timeline));
  }
}

int bench(Arguments arguments) {
  BenchOptions options;
  CLI::App app("Measures an operation: how fast it is, and whether it is right", "bench");
  app.footer(help_of_bench);
  using Text = std::string;
  const auto integer = [&app](const char* flags, const char* option, const char* help, auto& target, std::int64_t least,
                              std::int64_t most = std::numeric_limits<int>::max()) {
    app.add_option_function<Text>(
           flags,
           [option, &target, least, most](const Text& text) {
             target = static_cast<std::remove_reference_t<decltype(target)>>(parse_integer(option, text, least, most));
           },
           help)
        ->type_name("N");
  };
  const auto bytes = [&app](const char* flags, const char* option, const char* help, std::int64_t& target) {
    app.add_option_function<Text>(
           flags, [option, &target](const Text& text) { target = parse_bytes(option, text); }, help)
        ->type_name("BYTES");
  };
  bool plain = false;
  bool symmetric = false;
  add_operation(app, options.operation, operation_names());
  add_rank_options(app, options.ranks);
  bytes("-b,--begin", "-b", "the smallest size, as in 512, 64K, 1M, 2G (default 1K)", options.begin);
  bytes("-e,--end", "-e", "the largest size (default 64M)", options.end);
  integer("-f,--factor", "-f", "the factor from one size to the next (default 2)", options.factor, 2);
  app.add_option_function<Text>(
         "-i,--step",
         [&](const Text& text) {
           options.step = parse_bytes("-i", text);
           if (options.step == 0) throw InvalidArgument("-i is '0'; allowed: 1 byte and more");
         },
         "bytes from one size to the next, instead of a factor")
      ->type_name("BYTES");
  Repetitions& repetitions = options.repetitions;
  integer("--iters", "--iters", "iterations that are timed (default 20)", repetitions.iterations, 1, 1'000'000);
  integer("-w,--warmup", "--warmup", "iterations before them (default 5)", repetitions.warmup, 0, 1'000'000);
  integer("-G,--cudagraph", "-G", "capture the iterations in a CUDA graph, and launch it N times (default 0: no graph)",
          repetitions.graph_launches, 0, 1'000'000);
  add_dtype(app, options.dtype, "the element type (default f32; linear operations on cuda: bf16)");
  add_float8(app, options.float8);
  add_tf32(app, options.tf32);
  add_algorithm(app, options.algorithm);
  add_groups(app, options.groups);
  add_sms(app, options.sms);
  add_shapes(app, options.shapes, "linear operations: the global sizes; may be given several times");
  add_layouts(app, options.layouts);
  add_epilogue(app, options.epilogue);
  add_gradient(app, options.gradient);
  app.add_option_function<Text>(
         "--beside", [&](const Text& text) { options.beside = parse_shape("--beside", text); },
         "collectives: beside a product of this size on each rank, which on cuda leaves as many multiprocessors as "
         "--sms says (default: 24 for sums, none for copies)")
      ->type_name("M,N,K");
  auto* plain_flag = app.add_flag("--plain", plain, "collectives on plain tensors");
  app.add_flag(
         "--symmetric", symmetric,
         "collectives on symmetric tensors (the default where the algorithm takes them); linear_all_reduce into one")
      ->excludes(plain_flag);
  app.add_flag("--in-place", options.in_place, "collectives in place alone");
  integer("--root", "--root", "broadcast: the rank that sends (default 0)", options.root, 0, 63);
  app.add_flag("--blocking", options.blocking, "the host waits for each run on CUDA too");
  app.add_flag("--wire", options.wire, "also measure a plain copy to one peer, and show the ratio");
  app.add_flag("-I,--stats", options.stats, "show the 99th percentile as well");
  integer("--seed", "--seed", "of the random data (default 1)", options.seed, 0,
          std::numeric_limits<std::int64_t>::max());
  add_file(app, "--timeline", options.timeline, "write the Chrome trace of one iteration, of the last size or shape");
  add_file(app, "--plot", options.plot, "draw it, as a PNG (needs python3 with matplotlib)");
  add_report(app, options.report);
  if (const auto code = parse(app, arguments)) return *code;
  check(options, app);
  options.plain = on_plain_tensors(options, plain, symmetric);
  options.symmetric = is_linear(options.operation) && symmetric;

  const Env env = environment(options.ranks);
  if (!options.timeline.empty()) expect_no_trace(env, "--timeline");
  if (Launch::detect().launcher == "none") {  // errors are then printed once, not by each rank
    const DeviceType device = device_of(env.device);
    expect_possible(options, rank_count(options.ranks, device), device);
  }
  const World world = join(options.ranks, env, "bench", arguments);
  expect_possible(options, world.size(), world.device().id().type);
  options.report.run = provenance("bench", arguments, env);
  if (options.beside) return bench_beside(world, options);
  return is_linear(options.operation) ? bench_linear(world, options) : bench_collective(world, options);
}

}  // namespace tandem::tools

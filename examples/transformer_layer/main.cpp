// SPDX-License-Identifier: Apache-2.0
// The linear parts of one transformer layer, forward and backward, over all ranks: checked, then timed.
#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/team/world.hpp"

#include "common/timing.hpp"
#include "transformer_layer/check.hpp"
#include "transformer_layer/layer.hpp"

namespace tandem::transformer_layer {
namespace {

struct Options {
  LayerSizes sizes = small_layer;
  std::optional<DType> dtype;  // default: f32 on the host, bf16 on CUDA
  std::uint64_t seed = 1;
  int warmup = 5;
  int iterations = 20;
  int rest_ms = 0;
  bool keep_gathered = false;
  bool check_whole = false;
  std::string save;
  std::string json;
};

/// An exit code if there is nothing to run.
std::optional<int> parse(int argc, char** argv, Options& options) {
  CLI::App app(
      "The four linear parts of one transformer layer (QKV; attention's output; gate and up; down), forward and\n"
      "backward, tensor- and sequence-parallel over all ranks: checked against fp64 sums, then timed beside the same\n"
      "products without communication, and beside communication and products in sequence. What stands between the\n"
      "parts (norms, attention, SwiGLU, residual sums) is left out: each part has inputs of its own.",
      "transformer_layer");
  app.footer(
      "Examples:\n"
      "  tandem run -n 4 -- transformer_layer\n"
      "  tandem run -n 4 --link 50us,500MB/s -- transformer_layer --tokens 1024 --iters 9\n"
      "  tandem run -n 4 --device cuda -- transformer_layer --size llama-70b");
  const std::array<std::string, 2> known{"small", "llama-70b"};
  std::string size = known[0];
  app.add_option("--size", size, "small (default), or llama-70b: 8192 tokens, hidden 8192, MLP 28672, QKV 10240")
      ->check(CLI::IsMember(known));
  std::array<std::optional<std::int64_t>, 4> given;
  const std::array<const char*, 4> names{"--tokens", "--hidden", "--mlp", "--qkv"};
  const std::array<const char*, 4> meanings{"of all ranks together", "numbers that stand for a token",
                                            "of the gate, and as many of what it weighs", "outputs of QKV"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    app.add_option(names[i], given[i], meanings[i])->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  }
  std::string dtype;
  app.add_option("--dtype", dtype, "f32, f16 or bf16 (default: f32 on the host, bf16 on CUDA)")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  app.add_option("--iters", options.iterations, "timed iterations (default: 20)")->check(CLI::Range(1, 1'000'000));
  app.add_option("--warmup", options.warmup, "iterations before (default: 5)")->check(CLI::Range(0, 1'000'000));
  app.add_flag("--keep-gathered", options.keep_gathered,
               "column-parallel parts keep the x that they gathered for the way back, as PyTorch does, in place of\n"
               "gathering it again");
  app.add_option("--rest", options.rest_ms, "the device's rest in front of each timed run, in ms (default: 0)")
      ->check(CLI::Range(0, 10'000));
  app.add_option("--seed", options.seed, "of inputs, weights and gradients (default: 1)");
  app.add_flag("--check", options.check_whole,
               "compare every element of every result; without it, a grid of 32 x 32 of each");
  app.add_option("--save", options.save, "write every rank's results into this folder")->type_name("DIR");
  app.add_option("--json", options.json, "write the figures to this file, too; - for stdout alone")->type_name("FILE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (size == known[1]) options.sizes = llama_70b;
  const std::array<std::int64_t*, 4> sizes{&options.sizes.tokens, &options.sizes.hidden, &options.sizes.mlp,
                                           &options.sizes.qkv};
  for (std::size_t i = 0; i < sizes.size(); ++i) *sizes[i] = given[i].value_or(*sizes[i]);
  if (!dtype.empty()) options.dtype = parse_dtype(dtype);
  return std::nullopt;
}

/// Work of a layer on given tensors.
using Work = std::function<void(TransformerLayer&, const std::vector<Operands>&)>;

/// One line of the table: a pass of a part, or several together.
struct Row {
  std::string part;
  std::string pass;
  std::int64_t m = 0, n = 0, k = 0;  // of the GEMM, over all ranks; 0 for several GEMMs
  std::string algorithm;
  double flops = 0;  // of one rank, on average
  Work before;       // the preceding work of a training step; not timed
  Work run;
  double gemm = 0, sequence = 0, tandem = 0;  // seconds
};

std::vector<Row> rows_of(const LayerSizes& sizes, TransformerLayer& layer, int ranks, StreamRef stream) {
  std::vector<Row> rows;
  const std::vector<Part> parts = parts_of(sizes);
  double all = 0;
  const std::int64_t m = sizes.tokens;
  const Work nothing = [](auto&, auto&) {};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [name, split, k, n] = parts[i];
    const ParallelLinear::Algorithms algorithms = layer.part(i).algorithms();
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / ranks;
    all += flops;
    const Work forward = [=](auto& linear, auto& with) {
      linear.part(i).forward(with[i].x.view(), with[i].weight.view(), with[i].y.view(), stream);
    };
    const Work input_gradient = [=](auto& linear, auto& with) {
      linear.part(i).input_gradient(with[i].dy.view(), with[i].weight.view(), with[i].dx.view(), stream);
    };
    const Work weight_gradient = [=](auto& linear, auto& with) {
      linear.part(i).weight_gradient(with[i].dy.view(), with[i].x.view(), with[i].dw.view(), stream);
    };
    const Work backward = [=](auto& linear, auto& with) {
      linear.part(i).backward(with[i].dy.view(), with[i].weight.view(), with[i].x.view(), with[i].dx.view(),
                              with[i].dw.view(), stream);
    };
    rows.push_back({name, "forward", m, n, k, algorithms.forward, flops, nothing, forward});
    rows.push_back({name, "dgrad", m, k, n, algorithms.input_gradient, flops, forward, input_gradient});
    rows.push_back({name, "wgrad", n, k, m, algorithms.weight_gradient, flops, input_gradient, weight_gradient});
    rows.push_back({name, "backward", 0, 0, 0, "", 2 * flops, forward, backward});
  }
  const Work forward = [=](auto& linear, auto& with) { linear.forward(with, stream); };
  const Work backward = [=](auto& linear, auto& with) { linear.backward(with, stream); };
  const Work both = [=](auto& linear, auto& with) {
    forward(linear, with);
    backward(linear, with);
  };
  rows.push_back({"layer", "forward", 0, 0, 0, "", all, nothing, forward});
  rows.push_back({"layer", "backward", 0, 0, 0, "", 2 * all, forward, backward});
  rows.push_back({"layer", "both", 0, 0, 0, "", 3 * all, nothing, both});
  return rows;
}

/// Waits for a stream before the memory that its work uses is freed, even after an exception. Each wait in that work
/// has a deadline.
class Settled {
 public:
  explicit Settled(const Stream& stream) noexcept : stream_(stream) {}
  Settled(const Settled&) = delete;
  Settled& operator=(const Settled&) = delete;
  ~Settled() {
    try {
      stream_.synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the relevant error was thrown earlier
    }
  }

 private:
  const Stream& stream_;
};

/// Collective. Measures and fills in the rows' times.
void measure(std::vector<Row>& rows, const Team& team, const Options& options, DType dtype, TransformerLayer& layer,
             const std::vector<Operands>& operands, const Stream& stream) {
  TransformerLayer sequence(team, options.sizes, dtype,
                            {.algorithm = "sequence", .groups = std::nullopt, .keep_gathered = options.keep_gathered});
  TransformerLayer local = TransformerLayer::local(team, options.sizes, dtype);
  std::vector<Operands> whole;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    whole.push_back(make_local_operands(team, options.sizes, i, dtype, options.seed));
  }
  examples::Timing timing(team, stream, std::chrono::milliseconds(options.rest_ms));
  const Settled settled(stream);
  std::vector<examples::Timing::Body> bodies;
  const auto add = [&](const Row& row, TransformerLayer& by, const std::vector<Operands>& with) {
    bodies.push_back({.before = [&] { row.before(by, with); }, .run = [&] { row.run(by, with); }});
  };
  for (const Row& row : rows) {
    add(row, local, whole);
    add(row, sequence, operands);
    add(row, layer, operands);
  }
  const std::vector<double> medians = timing.in_turns(bodies, options.warmup, options.iterations);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].gemm = medians[3 * i];
    rows[i].sequence = medians[3 * i + 1];
    rows[i].tandem = medians[3 * i + 2];
  }
}

/// One result of this rank, on the host.
std::vector<std::byte> contents(Device& device, const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.view().bytes());
  device.download(bytes.data(), tensor.view().data(), bytes.size());
  return bytes;
}

void write_file(const std::filesystem::path& path, const void* data, std::size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  file.close();
  if (!file) throw Error("cannot write " + path.string());
}

/// Checks this rank's results and, if asked to, saves them: PART.RESULT.RANK, dense, as they are in memory.
Verdict check_results(const Team& team, const Options& options, DType dtype, const std::vector<Operands>& operands) {
  Verdict verdict;
  const std::vector<Part> parts = parts_of(options.sizes);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Operands& own = operands[i];
    for (const auto& [result, tensor, name] :
         {std::tuple{Result::y, &own.y, "y"}, {Result::dx, &own.dx, "dx"}, {Result::dw, &own.dw, "dw"}}) {
      const std::vector<std::byte> out = contents(team.device(), *tensor);
      verdict.add(check(parts[i], i, result, options.sizes.tokens, dtype, options.seed, out, team.size(), team.rank(),
                        options.check_whole));
      if (options.save.empty()) continue;
      const std::string file = parts[i].name + "." + name + "." + std::to_string(team.rank());
      write_file(std::filesystem::path(options.save) / file, out.data(), out.size());
    }
  }
  return verdict;
}

/// Collective. The verdict over all ranks.
Verdict over_ranks(const Team& team, const Verdict& own) {
  Parcel mine;
  mine.bytes.resize(sizeof(Verdict));
  std::memcpy(mine.bytes.data(), &own, sizeof(Verdict));
  Verdict all;
  for (const Parcel& parcel : team.exchange("verdicts", std::move(mine))) {
    Verdict one;
    std::memcpy(&one, parcel.bytes.data(), sizeof(Verdict));
    all.add(one);
  }
  return all;
}

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
  std::array<char, 256> line{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  return line.data();
}

void print_table(const std::vector<Row>& rows) {
  std::printf("%-6s%-9s%7s%7s%7s  %-12s%11s%11s%11s%8s%9s\n", "part", "pass", "M", "N", "K", "algorithm", "GEMM",
              "sequence", "Tandem", "ratio", "TFLOP/s");
  for (const Row& row : rows) {
    const std::string sizes =
        row.m == 0 ? text("%21s", "") : text("%7" PRId64 "%7" PRId64 "%7" PRId64, row.m, row.n, row.k);
    std::printf("%-6s%-9s%s  %-12s%11.1f%11.1f%11.1f%8.3f%9.3f\n", row.part.c_str(), row.pass.c_str(), sizes.c_str(),
                row.algorithm.c_str(), row.gemm * 1e6, row.sequence * 1e6, row.tandem * 1e6, row.gemm / row.tandem,
                row.flops / row.tandem * 1e-12);
  }
}

nlohmann::ordered_json document(const World& world, const Options& options, DType dtype, const Verdict& verdict,
                                const std::vector<Row>& rows) {
  nlohmann::ordered_json out{{"tokens", options.sizes.tokens}, {"hidden", options.sizes.hidden},
                             {"mlp", options.sizes.mlp},       {"qkv", options.sizes.qkv},
                             {"dtype", name(dtype)},           {"seed", options.seed},
                             {"rest", options.rest_ms},        {"keeps_gathered", options.keep_gathered},
                             {"ranks", world.size()},          {"device", name(world.device().id().type)},
                             {"compared", verdict.compared},   {"wrong", verdict.wrong},
                             {"worst", verdict.worst},         {"rows", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) {
    out["rows"].push_back({{"part", row.part},
                           {"pass", row.pass},
                           {"algorithm", row.algorithm},
                           {"gemm_us", row.gemm * 1e6},
                           {"sequence_us", row.sequence * 1e6},
                           {"tandem_us", row.tandem * 1e6}});
  }
  return out;
}

int run(const Options& options) {
  const World world = init();
  const Team& team = world.team();
  const DType dtype = options.dtype.value_or(world.device().id().type == DeviceType::cuda ? bf16 : f32);
  const bool speaks = world.rank() == 0;
  const bool table = speaks && options.json != "-";
  if (!options.save.empty()) std::filesystem::create_directories(options.save);

  std::vector<Operands> operands;
  for (std::size_t part = 0; part < parts_of(options.sizes).size(); ++part) {
    operands.push_back(make_operands(team, options.sizes, part, dtype, options.seed));
  }
  const LinearOptions how{.keep_gathered = options.keep_gathered};
  TransformerLayer layer(team, options.sizes, dtype, how);  // creates all plans, once: may block, allocates, chooses
  const Stream stream(world.device());
  const Settled settled(stream);
  layer.forward(operands, stream);  // asynchronous, any number of times
  layer.backward(operands, stream);
  team.synchronize(stream);

  if (table) {
    std::printf("# linear parts of one layer: %" PRId64 " tokens, hidden %" PRId64 ", MLP %" PRId64 ", QKV %" PRId64
                "; %s, %d ranks on %s, seed %" PRIu64 "\n",
                options.sizes.tokens, options.sizes.hidden, options.sizes.mlp, options.sizes.qkv,
                std::string(name(dtype)).c_str(), world.size(), std::string(name(world.device().id().type)).c_str(),
                options.seed);
  }
  const Verdict verdict = over_ranks(team, check_results(team, options, dtype, operands));
  if (table) {
    std::printf("# %" PRId64 " elements compared, #wrong %" PRId64 ", largest error %.3f of the bound\n",
                verdict.compared, verdict.wrong, verdict.worst);
    std::fflush(stdout);
  }
  std::vector<Row> rows;
  if (verdict.wrong == 0) {  // do not time wrong results
    rows = rows_of(options.sizes, layer, team.size(), stream);
    measure(rows, team, options, dtype, layer, operands, stream);
  }
  if (table && verdict.wrong == 0) {
    std::printf(
        "# us, medians of the slowest rank over %d iterations; GEMM: the products alone; ratio: GEMM / Tandem;\n"
        "# TFLOP/s: Tandem's, of each rank\n",
        options.iterations);
    print_table(rows);
  }
  if (speaks) {
    const nlohmann::ordered_json figures = document(world, options, dtype, verdict, rows);
    const std::string json = figures.dump(2) + "\n";
    if (options.json == "-") {
      std::fputs(json.c_str(), stdout);
    } else if (!options.json.empty()) {
      write_file(options.json, json.data(), json.size());
    }
    if (!options.save.empty()) write_file(std::filesystem::path(options.save) / "layer.json", json.data(), json.size());
  }
  team.barrier();
  return verdict.wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tandem::transformer_layer

int main(int argc, char** argv) {
  using namespace tandem::transformer_layer;
  try {
    Options options;
    if (const auto code = parse(argc, argv, options)) return *code;
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "transformer_layer: %s\n", error.what());
    return 1;
  }
}

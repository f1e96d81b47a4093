// SPDX-License-Identifier: Apache-2.0
#include "tools/demo.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/team/launch.hpp"

#include "base/format.hpp"
#include "language_model/trainer.hpp"
#include "tools/demo/operations.hpp"
#include "tools/demo/resources.hpp"
#include "tools/demo/step_check.hpp"
#include "tools/options.hpp"
#include "tools/parse.hpp"
#include "tools/ranks.hpp"
#include "tools/report.hpp"
#include "tools/timeline_plot.hpp"

namespace tandem::tools {
namespace {

using language_model::ModelOptions;
using language_model::Text;
using language_model::Trainer;
using language_model::TrainingOptions;
using Clock = std::chrono::steady_clock;

// The files in --out.
constexpr const char* timeline_file = "timeline.json";
constexpr const char* wide_file = "timeline-wide.json";
constexpr const char* link_file = "timeline-emulated-link.json";
constexpr const char* picture_file = "timeline.png";

constexpr int warm_steps = 2;  // before steps are traced
constexpr int traced_steps = 2;
constexpr int table_iterations = 15;
constexpr std::int64_t sample_bytes = 320;
constexpr double sample_temperature = 0.7;
// The emulated link of the second timeline if --link is not given: slow enough to be worth hiding on a laptop.
constexpr const char* default_link = "50us,200MB/s";
// The hidden size of the model of the second timeline on CUDA if --wide is not given. The trained model's GEMMs take no
// longer than a kernel launch, so nothing can overlap with them; a wide model's fp64 reference would take minutes.
constexpr std::int64_t default_wide = 4096;

/// The command line's options; the defaults of those that are not given depend on the device.
struct DemoOptions {
  RankOptions ranks{.on_host = 4};
  std::string text_file;
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> hidden;
  std::optional<std::int64_t> layers;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> wide;
  std::optional<DType> dtype;
  std::uint64_t seed = 1;
  std::string out = "tandem-demo";
  std::string json;
};

DType parse_compute_dtype(const std::string& text) {
  const DType dtype = parse_dtype(text);
  if (dtype == f32 || dtype == f16 || dtype == bf16) return dtype;
  throw InvalidArgument(format("--dtype is '{}'; allowed: f32, f16, bf16", text));
}

/// Returns an exit code if there is nothing to run.
std::optional<int> parse_options(Arguments arguments, DemoOptions& options) {
  CLI::App app(
      "Trains a byte-level language model on a text, split over all ranks, with its communication beside its compute.\n"
      "Checks the first, the middle and the last step against one rank, and draws each rank's timeline.",
      "demo");
  app.footer(format(
      "Trains on the machine as it is, and leaves a timeline of {0} steps. Two more, each with a timeline and a "
      "table of\nits own: of a wide model (--wide; on CUDA by default where ranks are several), whose results are not "
      "checked; and on the\nhost over an emulated link, that of --link or TANDEM_LINK, or of several ranks one of "
      "{1}.\n"
      "Example: tandem demo -n 4 --text book.txt --steps 500 --out book",
      traced_steps, default_link));
  add_rank_options(app, options.ranks);
  const auto number = [&app](const char* name, std::optional<std::int64_t>& value, std::int64_t most,
                             const std::string& meaning, std::int64_t least = 1) {
    app.add_option_function<std::string>(
           name,
           [&value, name, least, most](const std::string& text) { value = parse_integer(name, text, least, most); },
           meaning)
        ->type_name("N");
  };
  app.add_option("--text", options.text_file, "what to learn (default: Tandem's own sources and documents)")
      ->type_name("FILE");
  number("--steps", options.steps, 10'000'000, "how many steps to train (default 300; on CUDA 400)");
  number("--hidden", options.hidden, 65536, "hidden size (default 256; on CUDA 512)");
  number("--layers", options.layers, 1024, "layers (default 2; on CUDA 4)");
  number("--batch", options.batch, 1 << 20, "tokens of a step, over all ranks (default 512; on CUDA 2048)");
  number("--wide", options.wide, 65536,
         format("hidden size of a model that makes {} more steps, of twice as many tokens; 0: none (default none; on "
                "CUDA {})",
                traced_steps, default_wide),
         0);
  app.add_option_function<std::string>(
         "--dtype", [&](const std::string& text) { options.dtype = parse_compute_dtype(text); },
         "of products and activations: f32, f16 or bf16 (default: f32 on the host, bf16 on CUDA)")
      ->type_name("NAME");
  app.add_option_function<std::string>(
         "--seed",
         [&](const std::string& text) {
           options.seed =
               static_cast<std::uint64_t>(parse_integer("--seed", text, 0, std::numeric_limits<std::int64_t>::max()));
         },
         "of fresh parameters and batches (default 1)")
      ->type_name("N");
  app.add_option("--out", options.out, "where timelines and their picture go (default: tandem-demo)")->type_name("DIR");
  add_output(app, "--json", options.json, "write all figures as JSON; - is stdout, without the text");
  const std::optional<int> code = parse(app, arguments);
  if (!code) expect_folder("--out", options.out, {timeline_file, wide_file, link_file, picture_file});
  return code;
}

std::string read_text(const std::string& path) {
  if (path.empty()) return std::string(default_text());
  std::error_code error;  // a path that cannot be examined cannot be read either
  if (std::filesystem::is_directory(path, error)) {
    throw InvalidArgument(format("--text: '{}' is a folder; allowed: a file", path));
  }
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    throw InvalidArgument(format("--text: '{}' can be read once, and each rank reads it; allowed: a file", path));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.good() && !file.eof()) throw InvalidArgument(format("--text: cannot read '{}'", path));
  return text;
}

TrainingOptions training_options(const DemoOptions& given, DeviceType device) {
  const bool cuda = device == DeviceType::cuda;
  TrainingOptions options;
  options.model.tokens = given.batch.value_or(cuda ? 2048 : 512);
  options.model.hidden = given.hidden.value_or(cuda ? 512 : 256);
  options.model.width = 4 * options.model.hidden;
  options.model.layers = given.layers.value_or(cuda ? 4 : 2);
  options.model.dtype = given.dtype.value_or(cuda ? bf16 : f32);
  options.model.seed = given.seed;
  options.steps = given.steps.value_or(cuda ? 400 : 300);
  options.learning_rate = cuda ? 3e-3F : 6e-3F;
  options.seed = given.seed;
  return options;
}

/// A model of two blocks with `hidden` hidden numbers, and a batch large enough to be worth splitting over ranks.
ModelOptions wide_model(ModelOptions trained, std::int64_t hidden) {
  trained.hidden = hidden;
  trained.width = 4 * hidden;
  trained.tokens = 2 * hidden;
  trained.layers = 2;
  return trained;
}

/// Text in which everything but printable ASCII and newlines is escaped.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '\n' || (byte >= 0x20 && byte < 0x7f)) {
      out += c;
    } else {
      out += format("\\x{:02x}", byte);
    }
  }
  return out;
}

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (const char c : text) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return out;
}

/// Prints rank 0's messages as they come.
class Voice {
 public:
  explicit Voice(bool speaks) : speaks_(speaks), live_(speaks_ && isatty(STDOUT_FILENO) == 1) {}

  void say(const std::string& text) {
    if (speaks_) print((drawn_ ? "\r\033[K" : "") + text + "\n");
    drawn_ = false;
  }
  /// A line that the next one replaces if stdout is a terminal; otherwise only lines that are `kept` are printed.
  void progress(const std::string& text, bool kept) {
    if (!speaks_ || (!live_ && !kept)) return;
    if (!live_) return say(text);
    print("\r\033[K" + text);
    drawn_ = true;
  }

 private:
  static void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  bool speaks_;
  bool live_;
  bool drawn_ = false;
};

class Demo {
 public:
  Demo(const DemoOptions& options, std::string text)
      : options_(options), text_(std::move(text), ModelOptions{}.context) {}

  int run(Arguments arguments);

 private:
  void introduce(const World& world, const Trainer& trainer);
  void train(Trainer& trainer);
  /// Collective. Writes the timeline of some steps to `file`; `where` labels it.
  void trace(const World& world, Trainer& trainer, const std::string& file, const std::string& where);
  /// Collective. Prints the table of the model's overlapped operations.
  void measure(const World& world, const ModelOptions& model, const std::string& where);
  /// Collective. `trace` and `measure` for a model that is not trained further.
  void show(const World& world, const ModelOptions& model, const std::string& file, const std::string& where);
  void draw();

  DemoOptions options_;
  Text text_;
  TrainingOptions training_;
  std::optional<Voice> voice_;
  bool passed_ = true;
  std::vector<std::string> timelines_;
  nlohmann::ordered_json document_;
};

void Demo::introduce(const World& world, const Trainer& trainer) {
  const ModelOptions& model = training_.model;
  const std::string source = options_.text_file.empty() ? "Tandem's own sources and documents" : options_.text_file;
  const std::int64_t parameters = trainer.model().parameters().count();
  voice_->say(format("tandem demo: a byte-level language model over {} ranks on {} ({})", world.size(), setting(world),
                     world.device().describe()));
  voice_->say(format("  text   {}: {:.1f} KiB", source, static_cast<double>(text_.bytes().size()) / 1024));
  voice_->say(format("  model  {:.2f} million parameters, {}: {} bytes of context, hidden {}, {} blocks of width {}",
                     static_cast<double>(parameters) * 1e-6, name(model.dtype), model.context, model.hidden,
                     model.layers, model.width));
  voice_->say(format("  steps  {} of {} tokens; each rank has {} tokens between the blocks, {} of the width inside",
                     training_.steps, model.tokens, shard_of(model.tokens, world.size(), 0).count,
                     shard_of(model.width, world.size(), 0).count));
  voice_->say("  plans  of each block:");
  voice_->say(indented(indented(trainer.model().describe_block())));
  document_["ranks"] = world.size();
  document_["device"] = setting(world);
  document_["text"] = {{"source", source}, {"bytes", text_.bytes().size()}};
  document_["model"] = {{"parameters", parameters}, {"dtype", name(model.dtype)}, {"context", model.context},
                        {"hidden", model.hidden},   {"layers", model.layers},     {"width", model.width},
                        {"batch", model.tokens},    {"seed", options_.seed}};
}

void Demo::train(Trainer& trainer) {
  const std::int64_t steps = training_.steps;
  const std::int64_t middle = (steps + 1) / 2;
  const std::int64_t stride = std::max<std::int64_t>(1, steps / 12);
  double seconds = 0;
  std::int64_t timed = 0;
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  while (trainer.steps() < steps) {
    const std::int64_t step = trainer.steps() + 1;
    double loss = 0;
    if (step == 1 || step == middle || step == steps) {
      const StepCheck check = checked_step(trainer);
      passed_ = passed_ && check.passed();
      loss = check.loss;
      voice_->say(to_string(check));
      checks.push_back({{"step", step},
                        {"loss", check.loss},
                        {"reference_loss", check.reference_loss},
                        {"loss_share_of_bound", check.loss_share},
                        {"gradient_share_of_bound", check.gradient_share},
                        {"worst_gradient", check.worst_gradient},
                        {"passed", check.passed()}});
    } else {
      const auto begin = Clock::now();
      loss = trainer.step();
      seconds += std::chrono::duration<double>(Clock::now() - begin).count();
      ++timed;
    }
    losses.push_back(loss);
    std::string line = format("step {:>{}}/{}  loss {:.4f}", step, std::to_string(steps).size(), steps, loss);
    document_["tokens_per_second"] = nullptr;
    if (timed > 0) {
      const double rate = static_cast<double>(timed * training_.model.tokens) / seconds;
      line += format("  {:>6.0f} tokens/s", rate);
      document_["tokens_per_second"] = rate;
    }
    voice_->progress(line, step % stride == 0 || step == steps);
  }
  document_["losses"] = std::move(losses);
  document_["checks"] = std::move(checks);
  document_["passed"] = passed_;

  const std::string prompt = text_.bytes().substr(0, static_cast<std::size_t>(training_.model.context));
  const std::string written = trainer.write(prompt, sample_bytes, sample_temperature);
  document_["sample"] = {{"prompt", printable(prompt)}, {"text", printable(written)}};
  voice_->say(format("\nhow it goes on after the text's first {} bytes:\n", prompt.size()));
  voice_->say(indented(printable(prompt + written)) + "\n");
}

void Demo::trace(const World& world, Trainer& trainer, const std::string& file, const std::string& where) {
  for (int i = 0; i < warm_steps; ++i) static_cast<void>(trainer.step());
  world.device().trace().clear();
  world.device().trace().enable(true);
  for (int i = 0; i < traced_steps; ++i) static_cast<void>(trainer.step());
  const std::string path = (std::filesystem::path(options_.out) / file).string();
  write_timeline(world, path, where);
  timelines_.push_back(path);
}

void Demo::measure(const World& world, const ModelOptions& model, const std::string& where) {
  const std::vector<TimedOperation> operations = time_operations(world, model, table_iterations);
  voice_->say(format("each operation that can overlap, {} (median of the slowest rank):", where));
  for (const std::string& line : table(operations)) voice_->say("  " + line);
  voice_->say("");
  for (const TimedOperation& operation : operations) {
    document_["operations"].push_back({{"device", where},
                                       {"name", operation.name},
                                       {"operation", name(operation.problem.kind)},
                                       {"shape", to_string(operation.problem.shape)},
                                       {"algorithm", operation.choice.algorithm},
                                       {"groups", operation.choice.groups},
                                       {"t_gemm_us", operation.times.gemm * 1e6},
                                       {"t_comm_us", operation.times.comm * 1e6},
                                       {"t_seq_us", operation.times.sequence * 1e6},
                                       {"t_overlap_us", operation.times.overlap * 1e6},
                                       {"ideal_over_overlap", operation.times.ideal() / operation.times.overlap},
                                       {"exposed_us", operation.times.exposed() * 1e6}});
  }
}

void Demo::show(const World& world, const ModelOptions& model, const std::string& file, const std::string& where) {
  {
    TrainingOptions options = training_;
    options.model = model;
    Trainer trainer(world.team(), text_, options);
    trace(world, trainer, file, where);
  }
  measure(world, model, where);
}

void Demo::draw() {
  const std::string png = (std::filesystem::path(options_.out) / picture_file).string();
  const std::string title = "Two training steps on every rank";
  const std::string why = plot_timelines(timelines_, png, title);
  document_["timelines"] = timelines_;
  document_["picture"] = why.empty() ? nlohmann::ordered_json(png) : nlohmann::ordered_json();
  voice_->say(format("timelines: {} (open in ui.perfetto.dev)", joined(timelines_)));
  voice_->say(why.empty() ? format("picture:   {}", png) : format("no picture: {}", why));
}

int Demo::run(Arguments arguments) {
  Env env = environment(options_.ranks);
  expect_no_trace(env, "tandem demo");
  // The first run is without an emulated link, even if the environment specifies one: that is for the second.
  std::optional<LinkOptions> link = std::exchange(env.link, std::nullopt);
  std::optional<World> world = join(options_.ranks, env, "demo", arguments);
  const bool cuda = world->device().id().type == DeviceType::cuda;
  const int rank = world->rank();
  const Launch launch = world->launch();
  const bool several = world->size() > 1;
  if (!link && !cuda && several) link = parse_link(default_link);
  const std::int64_t wide = options_.wide.value_or(cuda && several ? default_wide : 0);
  voice_.emplace(rank == 0 && options_.json != "-");
  training_ = training_options(options_, world->device().id().type);
  if (rank == 0) {
    std::error_code error;
    std::filesystem::create_directories(options_.out, error);
    if (error) throw Error(format("the folder '{}' cannot be made: {}", options_.out, error.message()));
  }

  {
    Trainer trainer(world->team(), text_, training_);
    introduce(*world, trainer);
    train(trainer);
    trace(*world, trainer, timeline_file, setting(*world));
  }
  measure(*world, training_.model, setting(*world));
  if (wide > 0) {
    show(*world, wide_model(training_.model, wide), wide_file, format("{}, hidden {}", setting(*world), wide));
  }
  if (link) {
    // Traces and measures the model again in a new world, in which copies between ranks are as slow as the link.
    world.reset();
    env.link = link;
    world = init({.launch = launch, .env = env, .device = std::nullopt});
    show(*world, training_.model, link_file, setting(*world));
  }
  if (rank == 0) draw();
  if (rank == 0 && !options_.json.empty()) write_json(options_.json, document_);
  return passed_ ? success : failure;
}

}  // namespace

int demo(Arguments arguments) {
  DemoOptions options;
  if (const auto code = parse_options(arguments, options)) return *code;
  Demo demo(options, read_text(options.text_file));
  return demo.run(arguments);
}

}  // namespace tandem::tools

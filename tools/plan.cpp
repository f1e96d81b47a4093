// SPDX-License-Identifier: Apache-2.0
#include "tools/plan.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/h200_costs.hpp"
#include "tandem/linear/tuned_choice.hpp"

#include "base/format.hpp"
#include "tools/collective_prediction.hpp"
#include "tools/linear_problem.hpp"
#include "tools/options.hpp"
#include "tools/parse.hpp"
#include "tools/ranks.hpp"
#include "tools/report.hpp"

namespace tandem::tools {
namespace {

constexpr const char* help_of_plan = R"(
Linear operations: --shape M,N,K (M tokens of all ranks, N outputs, K inputs; N is split over ranks where x is gathered,
K where y is reduced). The cost model answers for rank 0, which has the largest share, or the plan cache where it knows
better (see `tandem tune`); no ranks are started. With --device cuda it answers also where there is no GPU, by the
constants of an H200 over NVLink, and says so; nothing tuned counts then.
Collectives: -n ranks start and make the plan for --size, which allocates its staging memory; nothing is run. The plan
says what it would do with smaller ones as well. What is predicted are the times for symmetric tensors and for plain
ones by the cost model's constants, which nobody measured here: a latency for each round of data, the bytes of one
rank's link, and those of its memory.

Examples:
  tandem plan all_gather_linear -n 4 --device host --shape 8192,16384,8192 --link 20us,10GB/s
  tandem plan linear_reduce_scatter -n 4 --shape 8192,8192,16384 --layout NN    # its gradient of x
  tandem plan all_reduce -n 4 --size 64M
)";

constexpr std::array<OptionOfSome, 1> plan_options_of_some{{{"--size", is_collective, "collectives"}}};

struct PlanOptions {
  Operation operation = Operation::all_reduce;
  RankOptions ranks;
  std::optional<Shape> shape;
  Layouts layouts;
  Epilogue epilogue;
  GradientOptions gradient;
  std::int64_t size = std::int64_t{64} << 20;
  std::optional<DType> dtype;
  Float8Options float8;
  bool tf32 = false;
  std::string algorithm = "auto";
  std::optional<int> groups;
  std::optional<int> sms;
  std::string json;
};

std::string on_device(const Device& device, const std::optional<LinkOptions>& link) {
  const std::string text(name(device.id().type));
  return link ? format("{}, emulated link {}", text, to_string(*link)) : text;
}

void tell(const PlanOptions& options, const std::string& text, const nlohmann::ordered_json& document) {
  if (options.json != "-") std::fputs(text.c_str(), stdout);
  if (!options.json.empty()) write_json(options.json, document);
}

/// The choice for a linear operation, and the device that it is for.
struct Answer {
  LinearChoice choice;
  std::string where;
};

Answer choice_on(DeviceType type, const LinearProblem& problem, const Env& env, const PlanOptions& given) {
  const LinearOptions options{.algorithm = given.algorithm, .groups = given.groups, .sms = given.sms};
  const LinearSpec spec = problem.costed_spec(0);
  if (type == DeviceType::cuda && device_count(type) == 0) {
    return {choose(problem.kind, spec, problem.ranks, h200_costs(), options),
            "cuda, no GPU here: costs of an H200 over NVLink"};
  }
  const auto device = open_device(
      {type, 0}, {.link = env.link, .gemm = env.gemm, .gemm_threads = env.gemm_threads, .ranks = problem.ranks});
  return {choose_tuned(problem.kind, spec, problem.ranks, *device, options, PlanCache(env.plan_cache),
                       Log(env.log, env.log_file, 0)),
          on_device(*device, env.link)};
}

int plan_linear(const PlanOptions& options) {
  if (!options.shape) {
    throw InvalidArgument(format("{} needs --shape M,N,K, as in --shape 512,1024,256", name(options.operation)));
  }
  if (options.ranks.bind) {
    throw InvalidArgument(
        format("--bind says where ranks run, and plan of {} starts none; leave it out", name(options.operation)));
  }
  const Env env = environment(options.ranks);
  const DeviceType device = device_of(env.device);
  expect_sms(options.sms, device);
  const bool elsewhere = device == DeviceType::cuda && device_count(device) == 0;  // plans for another machine
  const int ranks = elsewhere ? options.ranks.ranks.value_or(2) : rank_count(options.ranks, device);
  const LinearProblem problem{.kind = linear_kind(options.operation),
                              .shape = *options.shape,
                              .ranks = ranks,
                              .dtype = linear_dtype(options.dtype, options.tf32, device),
                              .float8 = options.float8,
                              .tf32 = options.tf32,
                              .device = device,
                              .x_layout = options.layouts.x,
                              .weight_layout = options.layouts.weight,
                              .bias = options.epilogue.bias,
                              .activation = options.epilogue.activation,
                              .auxiliary = options.epilogue.auxiliary,
                              .gathered = options.gradient.gathered,
                              .gradient_dtype = options.gradient.dtype};
  const auto [choice, where] = choice_on(device, problem, env, options);
  const std::string spec = to_string(problem.spec(0)) + in_words(problem.gathered);
  const LinearPrediction& predicted = choice.predicted;
  tell(options,
       format("# tandem plan {} of {}: {} ranks on {}\n{} {} on rank 0\n{}\n", name(options.operation),
              to_string(*options.shape), ranks, where, name(problem.kind), spec, to_string(choice)),
       {{"operation", name(options.operation)},
        {"m", options.shape->m},
        {"n", options.shape->n},
        {"k", options.shape->k},
        {"type", problem.type()},
        {"spec", spec},
        {"ranks", ranks},
        {"device", where},
        {"algorithm", choice.algorithm},
        {"groups", choice.groups},
        {"why", choice.why},
        {"t_gemm_us", predicted.t_gemm * 1e6},
        {"t_comm_us", predicted.t_comm * 1e6},
        {"t_sequence_us", predicted.t_sequence * 1e6},
        {"t_pipeline_us", predicted.t_pipeline * 1e6},
        {"t_stepwise_us", microseconds_if_any(predicted.t_stepwise)},
        {"t_growing_us", microseconds_if_any(predicted.t_growing)},
        {"t_shrinking_us", microseconds_if_any(predicted.t_shrinking)},
        {"t_direct_us", microseconds_if_any(predicted.t_direct)},
        {"t_ideal_us", predicted.t_ideal() * 1e6}});
  return success;
}

int plan_collective(const PlanOptions& options, Arguments arguments) {
  const World world = join(options.ranks, "plan", arguments);
  expect_sms(options.sms, world.device().id().type);
  const CollectiveProblem problem =
      sized_problem(options.operation, world.size(), options.size, options.dtype.value_or(f32));
  if (problem.rows == 0 && options.size != 0) {
    const std::int64_t element = static_cast<std::int64_t>(size_of(problem.dtype));
    const bool has_parts = options.operation != Operation::all_reduce && options.operation != Operation::broadcast;
    throw InvalidArgument(format(
        "--size is {} bytes, in which {} of {} over {} ranks has no element; allowed: from {} on", options.size,
        name(options.operation), name(problem.dtype), world.size(), has_parts ? element * world.size() : element));
  }
  const CollectivePlan plan(world.team(), options.operation, problem.plan_count(), problem.dtype,
                            {.algorithm = options.algorithm, .sms = options.sms});
  if (world.rank() != 0) return success;
  const CostTable costs = world.device().costs();
  const std::string whose =
      costs.of_another == nullptr ? "" : format(" by the costs of {}, not of this device", costs.of_another);
  std::string predicted;
  nlohmann::ordered_json predictions;
  for (const bool symmetric : {true, false}) {
    const Form* form = form_for(options.operation, options.algorithm, symmetric, false);
    if (form == nullptr) continue;  // the algorithm does not support such tensors
    const std::string_view runs = plan.algorithm(problem.plan_count(), *form);
    const double microseconds =
        predict_seconds(options.operation, runs, *form, world.size(), options.size, costs) * 1e6;
    predicted += format("{}{} ({}) {:.1f} us", predicted.empty() ? "" : ", ", form->name, runs, microseconds);
    predictions.push_back({{"tensors", form->name}, {"algorithm", runs}, {"time_us", microseconds}});
  }
  tell(options,
       format("# tandem plan {} of {} bytes: {} rank{} on {}\n{}\npredicted{}: {}\n", name(options.operation),
              bytes_to_string(options.size), world.size(), world.size() == 1 ? "" : "s", setting(world),
              plan.describe(), whose, predicted),
       {{"operation", name(options.operation)},
        {"size", options.size},
        {"type", name(problem.dtype)},
        {"ranks", world.size()},
        {"device", setting(world)},
        {"plan", plan.describe()},
        {"costs_of", costs.of_another == nullptr ? setting(world) : costs.of_another},
        {"predicted", predictions}});
  return success;
}

}  // namespace

int plan(Arguments arguments) {
  PlanOptions options;
  CLI::App app("Says what an operation would run, why, and how long that is predicted to take", "plan");
  app.footer(help_of_plan);
  using Text = std::string;
  add_operation(app, options.operation, operation_names());
  add_rank_options(app, options.ranks);
  app.add_option_function<Text>(
         "--shape", [&](const Text& text) { options.shape = parse_shape("--shape", text); },
         "linear operations: the global sizes")
      ->type_name("M,N,K");
  add_layouts(app, options.layouts);
  add_epilogue(app, options.epilogue);
  add_gradient(app, options.gradient);
  app.add_option_function<Text>(
         "--size", [&](const Text& text) { options.size = parse_bytes("--size", text); },
         "collectives: how much, as `tandem bench` counts it (default 64M)")
      ->type_name("BYTES");
  add_dtype(app, options.dtype, "the element type (default f32; linear operations on cuda: bf16)");
  add_float8(app, options.float8);
  add_tf32(app, options.tf32);
  add_algorithm(app, options.algorithm);
  add_groups(app, options.groups);
  add_sms(app, options.sms);
  add_output(app, "--json", options.json, "write it as JSON; - is stdout, without the text");
  if (const auto code = parse(app, arguments)) return *code;
  expect_taken(options.operation, app, plan_options_of_some);
  expect_options(options.operation, options.algorithm, options.dtype, options.tf32);
  expect_epilogue(options.epilogue);
  return is_linear(options.operation) ? plan_linear(options) : plan_collective(options, arguments);
}

}  // namespace tandem::tools

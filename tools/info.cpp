// SPDX-License-Identifier: Apache-2.0
#include "tools/info.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/env.hpp"
#include "tandem/base/version.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/gpu_link.hpp"
#include "tandem/memory/backend.hpp"
#include "tandem/team/launch.hpp"

#include "base/format.hpp"
#include "base/log_check.hpp"
#include "base/trace_file.hpp"
#include "team/own_checks.hpp"
#include "tools/commit.hpp"
#include "tools/options.hpp"
#include "tools/parse.hpp"
#include "tools/provenance.hpp"
#include "tools/report.hpp"

namespace tandem::tools {
namespace {

using Json = nlohmann::ordered_json;

/// What `look` returns, or why it failed.
template <typename Look> std::string found(const Look& look) {
  try {
    return look();
  } catch (const std::exception& error) {
    return format("cannot be used: {}", error.what());
  }
}

std::string launcher() {
  return found([]() -> std::string {
    const Launch launch = Launch::detect();
    if (launch.launcher == "none") return "none: a world of one";
    return format("{}: rank {} of {}, local rank {} of {}, {} node{}, job {}", launch.launcher, launch.rank,
                  launch.world_size, launch.local_rank, launch.local_size, launch.nodes, launch.nodes == 1 ? "" : "s",
                  launch.job);
  });
}

/// The devices that can be opened, and a line of text about each device.
struct Devices {
  std::optional<LinkOptions> link;
  std::vector<std::shared_ptr<Device>> open;
  Json lines = Json::array();
};

Devices devices() {
  DeviceOptions options;
  try {
    const Env env = Env::from_process();
    options.link = env.link;
    options.gemm = env.gemm;
    options.gemm_threads = env.gemm_threads;
  } catch (const std::exception&) {  // reported below, by why_no_world
  }
  Devices devices{.link = options.link, .open = {}};
  for (const DeviceType type : {DeviceType::host, DeviceType::cuda}) {
    const int count = device_count(type);
    if (count == 0) devices.lines.push_back({{"id", name(type)}, {"is", format("none: {}", why_no_device(type))}});
    for (int index = 0; index < count; ++index) {
      const DeviceId id{type, index};
      devices.lines.push_back({{"id", to_string(id)}, {"is", found([&] {
                                                         devices.open.push_back(open_device(id, options));
                                                         return devices.open.back()->describe();
                                                       })}});
    }
  }
  return devices;
}

/// The first open device of each type.
std::vector<std::shared_ptr<Device>> one_of_each(const Devices& devices) {
  std::vector<std::shared_ptr<Device>> chosen;
  for (const auto& device : devices.open) {
    if (chosen.empty() || chosen.back()->id().type != device->id().type) chosen.push_back(device);
  }
  return chosen;
}

/// What connects the ranks: on the host the memory that they share, on CUDA the link between each pair of GPUs.
Json links(const Devices& devices) {
  Json lines = Json::array();
  lines.push_back(
      {{"id", "host"}, {"is", devices.link ? format("emulated link {}", to_string(*devices.link)) : "shared memory"}});
  const int gpus = device_count(DeviceType::cuda);
  for (int one = 0; one < gpus; ++one) {
    for (int other = one + 1; other < gpus; ++other) {
      lines.push_back({{"id", format("cuda:{}, cuda:{}", one, other)},
                       {"is", found([&] { return describe_gpu_link(one, other); })}});
    }
  }
  return lines;
}

/// The link rates that the cost model assumes; they are not measured.
Json cost_model(const Devices& devices) {
  Json lines = Json::array();
  for (const auto& device : one_of_each(devices)) {
    const CostTable costs = device->costs();
    lines.push_back({{"id", name(device->id().type)},
                     {"is", format("{:.1f} GB/s and {:.1f} us from a rank to a peer{}",
                                   costs.link_bytes_per_second * 1e-9, costs.link_latency_seconds * 1e6,
                                   costs.of_another == nullptr ? "" : format(" (of {})", costs.of_another))}});
  }
  return lines;
}

Json memory_backends(const Devices& devices) {
  Json lines = Json::array();
  for (const std::string& backend : memory_backend_names()) {
    std::string on;
    std::string why;
    for (const auto& device : one_of_each(devices)) {
      const std::string reason = why_no_memory_backend(backend, *device);
      if (reason.empty()) on += format("{}{}", on.empty() ? "available on " : " and ", name(device->id().type));
      if (!reason.empty()) why += format("{}{}", why.empty() ? "" : "; ", reason);
    }
    lines.push_back({{"id", backend}, {"is", on.empty() ? format("unavailable: {}", why) : on}});
  }
  return lines;
}

Json gemm_libraries(const Devices& devices) {
  Json lines = Json::array();
  for (const auto& device : one_of_each(devices)) {
    lines.push_back(
        {{"id", name(device->id().type)},
         {"is", found([&] { return device->gemm({.m = 64, .n = 64, .k = 64, .dtype = bf16})->describe(); })}});
  }
  return lines;
}

Json attention_libraries(const Devices& devices) {
  Json lines = Json::array();
  for (const auto& device : one_of_each(devices)) {
    const std::string why = device->why_no_attention();
    const AttentionSpec some{.queries = 64, .keys = 64, .head_dim = 64, .dtype = bf16};
    lines.push_back(
        {{"id", name(device->id().type)},
         {"is", found([&] { return why.empty() ? device->attention(some)->describe() : format("none: {}", why); })}});
  }
  return lines;
}

/// Why no program can start here, by what `init` checks on each rank before the ranks meet. Empty if one can.
std::string why_no_world(const Devices& devices) {
  try {
    const Env env = Env::from_process();
    const Launch launch = Launch::detect();
    check_launch(launch);
    check_log(env.log, env.log_file, launch.rank);
    if (!env.trace.empty()) static_cast<void>(TraceFile(env.trace, launch.rank));
    const DeviceId id = choose_device(std::nullopt, launch, env);
    for (const auto& device : devices.open) {
      if (device->id() == id) return "";
    }
    for (const Json& line : devices.lines) {
      if (line["id"] == to_string(id)) return format("{} {}", to_string(id), line["is"].get<std::string>());
    }
    return format("there is no {}", to_string(id));
  } catch (const std::exception& error) {
    return error.what();
  }
}

Json gather() {
  const Devices all = devices();
  Json document;
  document["version"] = version();
  document["commit"] = commit();
  document["compiler"] = compiler();
  document["launcher"] = launcher();
  document["devices"] = all.lines;
  document["links"] = links(all);
  document["cost_model"] = cost_model(all);
  document["memory_backends"] = memory_backends(all);
  document["gemm"] = gemm_libraries(all);
  document["attention"] = attention_libraries(all);
  document["plan_cache"] = found([] { return plan_cache(Env::from_process().plan_cache); });
  document["environment"] = environment_rows();
  document["error"] = why_no_world(all);
  return document;
}

void print_section(const char* title, const Json& lines) {
  std::size_t width = 6;
  for (const Json& line : lines) width = std::max(width, line["id"].get_ref<const std::string&>().size());
  std::string text = format("\n{}\n", title);
  for (const Json& line : lines) {
    text += format("  {:<{}}{}\n", line["id"].get<std::string>(), width + 2, line["is"].get<std::string>());
  }
  std::fputs(text.c_str(), stdout);
}

void print_text(const Json& document) {
  std::fputs(
      format("tandem {}, built by {}\nlauncher: {}\n", build(), compiler(), document["launcher"].get<std::string>())
          .c_str(),
      stdout);
  if (const auto why = document["error"].get<std::string>(); why.empty()) {
    std::fputs(format("plan cache: {}\n", document["plan_cache"].get<std::string>()).c_str(), stdout);
  } else {
    std::fputs(format("error: Tandem programs cannot start in this environment: {}\n", why).c_str(), stdout);
  }
  print_section("devices", document["devices"]);
  print_section("links", document["links"]);
  print_section("cost model's constants (docs/performance/cost_model.md)", document["cost_model"]);
  print_section("memory backends", document["memory_backends"]);
  print_section("matrix products", document["gemm"]);
  print_section("attention", document["attention"]);
  Json variables = Json::array();
  for (const Json& row : document["environment"]) {
    const bool set = row["value"].is_string();
    const std::string otherwise = set ? "allowed" : "default";
    variables.push_back(
        {{"id", row["variable"]},
         {"is", format("{:<14} {} ({}: {})", set ? "= " + row["value"].get<std::string>() : "not set",
                       row["meaning"].get<std::string>(), otherwise, row[otherwise].get<std::string>())}});
  }
  print_section("environment", variables);
}

}  // namespace

int info(Arguments arguments) {
  CLI::App app("Shows what this machine, this build and this environment offer, and why something is not there.",
               "info");
  app.footer("Ends with 1 where no program of Tandem's can start, and says why.\nExample: tandem info --json -");
  std::string json;
  add_output(app, "--json", json, "write it as JSON; - is stdout, without the text");
  if (const auto code = parse(app, arguments)) return *code;
  const Json document = gather();
  if (json != "-") print_text(document);
  if (!json.empty()) write_json(json, document);
  return document["error"].get_ref<const std::string&>().empty() ? success : failure;
}

}  // namespace tandem::tools

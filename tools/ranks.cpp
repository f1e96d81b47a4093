// SPDX-License-Identifier: Apache-2.0
#include "tools/ranks.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "base/format.hpp"
#include "tools/cores.hpp"
#include "tools/parse.hpp"

namespace tandem::tools {
namespace {

constexpr std::int64_t most_ranks = 64;  // the most that one wait, and one reduction, supports

[[noreturn]] void become_launcher(int ranks, bool bind, const char* command, Arguments arguments) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words{
      self, "run", "-n", format("{}", ranks), "--bind", bind ? "core" : "none", "--no-prefix", "--", self, command};
  // Without --bind: the launcher has pinned the ranks, and ranks that were started by a launcher refuse the option.
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    if (*word == "--bind") {
      ++word;  // skips its value
    } else if (!word->starts_with("--bind=")) {
      words.push_back(*word);
    }
  }
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(self.c_str(), argv.data());
  throw Error(format("cannot start {}: {}", self, std::strerror(errno)));
}

}  // namespace

void add_rank_options(CLI::App& app, RankOptions& options) {
  app.add_option_function<std::string>(
         "-n,--ranks",
         [&options](const std::string& text) {
           options.ranks = static_cast<int>(parse_integer("-n", text, 1, most_ranks));
         },
         format("how many ranks (default: the launcher's, one for each GPU, or {})", options.on_host))
      ->type_name("N");
  app.add_option_function<std::string>(
         "--device", [&options](const std::string& text) { options.device = parse_device("--device", text); },
         "auto, host or cuda; auto is cuda where there is a GPU (default: what TANDEM_DEVICE says, or auto)")
      ->type_name("NAME");
  app.add_option_function<std::string>(
         "--link", [&options](const std::string& text) { options.link = parse_link(text); },
         "host: emulate a link between the ranks, as in 20us,1GB/s")
      ->type_name("LATENCY,BANDWIDTH");
  app.add_option_function<std::string>(
         "--bind",
         [&options](const std::string& text) { options.bind = parse_name("--bind", text, {"none", "core"}) == 1; },
         "core: each rank keeps to its share of the CPUs; none: the system moves ranks about (default: core on the "
         "host, "
         "where ranks divide evenly over the CPUs)")
      ->type_name("none|core");
}

Env environment(const RankOptions& options) {
  Env env = Env::from_process();
  if (options.device) env.device = *options.device;
  if (options.link) env.link = options.link;
  if (env.link && device_of(env.device) == DeviceType::cuda) {
    const char* device = options.device == DeviceChoice::cuda ? "--device cuda"
                         : env.device == DeviceChoice::cuda   ? "TANDEM_DEVICE=cuda"
                                                              : "cuda, which was found; --device host chooses the host";
    throw InvalidArgument(format("{} emulates a link of the host device; it does not go with {}",
                                 options.link ? "--link" : "TANDEM_LINK", device));
  }
  return env;
}

int rank_count(const RankOptions& options, DeviceType device) {
  if (options.ranks) return *options.ranks;
  const Launch launch = Launch::detect();
  if (launch.launcher != "none") return launch.world_size;
  if (device == DeviceType::host) return options.on_host;
  return std::clamp(device_count(device), 1, static_cast<int>(most_ranks));  // without a GPU, one rank reports it
}

World join(const RankOptions& options, const char* command, Arguments arguments) {
  return join(options, environment(options), command, arguments);
}

World join(const RankOptions& options, Env env, const char* command, Arguments arguments) {
  const Launch launch = Launch::detect();
  if (launch.launcher == "none") {
    const DeviceType device = device_of(env.device);
    const int ranks = rank_count(options, device);
    const bool bind = options.bind.value_or(device == DeviceType::host && !divide_cores(ranks).empty());
    if (device == DeviceType::cuda && device_count(device) == 0) {
      throw Unsupported(format("the device is to be 'cuda' (--device or TANDEM_DEVICE), but none can be used here: {}",
                               why_no_device(device)));
    }
    if (ranks != 1) become_launcher(ranks, bind, command, arguments);
  } else if (options.ranks && *options.ranks != launch.world_size) {
    throw InvalidArgument(format("-n is {}, but {} started a world of {} ranks; leave -n out or give {}",
                                 *options.ranks, launch.launcher, launch.world_size, launch.world_size));
  } else if (options.bind) {
    throw InvalidArgument(format(
        "--bind says where the ranks run that this command starts; these were started by {}: leave --bind out, or give "
        "it to the launcher",
        launch.launcher));
  }
  return init({.launch = launch, .env = std::move(env), .device = std::nullopt});
}

}  // namespace tandem::tools

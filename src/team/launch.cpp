// SPDX-License-Identifier: Apache-2.0
#include "tandem/team/launch.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <unistd.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem {
namespace {

using Names = std::array<const char*, 3>;  // the first that is set counts; null where there are fewer

/// One row: how a launcher shows itself, and where it says what.
struct Launcher {
  const char* name;
  Names shown_by;  // any of them
  Names rank;
  Names world_size;
  Names local_rank;
  Names local_size;                // a number, or Slurm's "2(x3),1"
  Names nodes;                     // none: world size over local size
  std::array<const char*, 4> job;  // all that are set, joined; one is needed
};

constexpr std::array<Launcher, 4> launchers{{
    {"tandem run",
     {"TANDEM_RANK", "TANDEM_WORLD_SIZE"},
     {"TANDEM_RANK"},
     {"TANDEM_WORLD_SIZE"},
     {"TANDEM_RANK"},
     {"TANDEM_WORLD_SIZE"},
     {},
     {"TANDEM_JOB"}},
    {"torchrun",
     {"TORCHELASTIC_RUN_ID", "LOCAL_WORLD_SIZE"},
     {"RANK"},
     {"WORLD_SIZE"},
     {"LOCAL_RANK"},
     {"LOCAL_WORLD_SIZE"},
     {},
     {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}},
    // Open MPI 4 numbers its jobs by 16 bits of a hash: its transport key makes two jobs at one time different.
    {"mpirun",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_RANK"},
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_RANK"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     {},
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_precondition_transports"}},
    // Not SLURM_PROCID: the script of sbatch has it too, and is no step.
    {"srun",
     {"SLURM_STEP_ID"},
     {"SLURM_PROCID"},
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     {"SLURM_LOCALID"},
     {"SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"},
     {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"},
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
}};

struct Value {
  std::string name;
  std::string text;
};

template <std::size_t count>
std::optional<Value> find(const Env::Lookup& lookup, const std::array<const char*, count>& names) {
  for (const char* name : names) {
    if (name == nullptr) break;
    if (auto text = lookup(name); text && !text->empty()) return Value{name, *text};
  }
  return std::nullopt;
}

template <std::size_t count> std::string list(const std::array<const char*, count>& names, std::string_view between) {
  std::string text;
  for (const char* name : names) {
    if (name != nullptr) text += format("{}`{}`", text.empty() ? "" : between, name);
  }
  return text;
}

[[noreturn]] void refuse(const Launcher& launcher, const Value& value, const std::string& allowed) {
  throw InvalidArgument(
      format("{} is '{}'; allowed: {} (launcher: {})", value.name, value.text, allowed, launcher.name));
}

Value require(const Launcher& launcher, const Env::Lookup& lookup, const Names& names, const Value& shown,
              const char* allowed) {
  if (auto value = find(lookup, names)) return *value;
  throw InvalidArgument(format("{} is not set, though {} ('{}') says that {} started this process; allowed: {}",
                               names[0], shown.name, shown.text, launcher.name, allowed));
}

std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The largest count of "2(x3),1" (three nodes with two tasks, one with one), or of a plain "2".
std::optional<int> largest_count(std::string_view text) {
  int largest = 0;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view entry = text.substr(0, comma);
    const auto count = whole_number(entry.substr(0, entry.find("(x")));
    if (!count || *count < 1) return std::nullopt;
    largest = std::max(largest, *count);
    if (comma == std::string_view::npos) return largest;
    text.remove_prefix(comma + 1);
  }
}

constexpr int max_ranks = 1 << 16;

int number_in(const Launcher& launcher, const Value& value, int low, int high) {
  const auto number = whole_number(value.text);
  if (!number || *number < low || *number > high) {
    refuse(launcher, value, format("a whole number from {} to {}", low, high));
  }
  return *number;
}

Launch read(const Launcher& launcher, const Env::Lookup& lookup, const Value& shown) {
  Launch launch;
  launch.launcher = launcher.name;
  const Value size = require(launcher, lookup, launcher.world_size, shown, "the number of ranks");
  launch.world_size = number_in(launcher, size, 1, max_ranks);
  const Value rank = require(launcher, lookup, launcher.rank, shown, "this process's rank");
  launch.rank = number_in(launcher, rank, 0, launch.world_size - 1);

  if (const auto nodes = find(lookup, launcher.nodes)) launch.nodes = number_in(launcher, *nodes, 1, max_ranks);
  if (launcher.nodes[0] != nullptr && launch.nodes == 1) {
    launch.local_size = launch.world_size;  // tasks per node may be a wish there
  } else {
    const Value local = require(launcher, lookup, launcher.local_size, shown, "how many ranks this node has");
    const auto count = largest_count(local.text);
    if (!count || *count > launch.world_size) {
      refuse(launcher, local, format("a whole number from 1 to {}", launch.world_size));
    }
    launch.local_size = *count;
    launch.nodes = std::max(launch.nodes, (launch.world_size + launch.local_size - 1) / launch.local_size);
  }
  const Value local_rank = require(launcher, lookup, launcher.local_rank, shown, "this process's rank on its node");
  launch.local_rank = number_in(launcher, local_rank, 0, launch.local_size - 1);

  for (const char* name : launcher.job) {
    const auto text = name == nullptr ? std::nullopt : lookup(name);
    if (text && !text->empty()) launch.job += format("{}{}", launch.job.empty() ? "" : ".", *text);
  }
  if (launch.job.empty()) {
    throw InvalidArgument(
        format("{} is not set, though {} ('{}') says that {} started this process; allowed: a name "
               "that all ranks of the job share and no other job has",
               launcher.job[0], shown.name, shown.text, launcher.name));
  }
  return launch;
}

}  // namespace

Launch Launch::detect() {
  return detect([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

Launch Launch::detect(const Env::Lookup& lookup) {
  for (const Launcher& launcher : launchers) {
    if (const auto shown = find(lookup, launcher.shown_by)) return read(launcher, lookup, *shown);
  }
  Launch alone;
  alone.launcher = "none";
  alone.job = format("alone.{}", ::getpid());
  return alone;
}

std::string Launch::table() {
  std::string text =
      "| launcher | shown by | rank | world size | local rank | local size | nodes | job |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const Launcher& launcher : launchers) {
    text += format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", launcher.name, list(launcher.shown_by, " or "),
                   list(launcher.rank, ", else "), list(launcher.world_size, ", else "),
                   list(launcher.local_rank, ", else "), list(launcher.local_size, ", else "),
                   launcher.nodes[0] == nullptr ? "world size / local size" : list(launcher.nodes, ", else "),
                   list(launcher.job, " + "));
  }
  text += "| none | none of these | 0 | 1 | 0 | 1 | 1 | the process id |\n";
  return text;
}

}  // namespace tandem

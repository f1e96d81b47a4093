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
#include "team/ancestor.hpp"

namespace tandem {
namespace {

using Names = std::array<const char*, 3>;  // the first that is set is used; padded with null

/// One launcher: the variables that identify it, and those that hold each value.
struct Launcher {
  const char* name;
  Names shown_by;  // any one of them
  Names rank;
  Names world_size;
  Names local_rank;
  Names local_size;                // a number, or Slurm's "2(x3),1"
  Names nodes;                     // if it has none: world size / local size
  std::array<const char*, 4> job;  // all that are set, joined; at least one must be
  // For a launcher that names no job: its program that starts a node's ranks; that process identifies the job.
  const char* starter = nullptr;
};

constexpr std::array<Launcher, 5> launchers{{
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
    // Open MPI 4 identifies jobs by 16 bits of a hash, so its transport key is needed to tell concurrent jobs apart.
    {"mpirun",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_RANK"},
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_RANK"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     {},
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_precondition_transports"}},
    // The launcher of MPICH and Intel MPI. Not shown by PMI_RANK, which srun also sets for MPI programs.
    {"mpiexec.hydra",
     {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
     {"PMI_RANK"},
     {"PMI_SIZE"},
     {"MPI_LOCALRANKID"},
     {"MPI_LOCALNRANKS"},
     {},
     {"TANDEM_JOB"},
     "hydra_pmi_proxy"},
    // Not shown by SLURM_PROCID, which is also set in an sbatch script, outside of any step.
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

template <std::size_t count>
std::string list(const std::array<const char*, count>& names, std::string_view between, std::string_view quote = "`") {
  std::string text;
  for (const char* name : names) {
    if (name != nullptr) text += format("{}{}{}{}", text.empty() ? "" : between, quote, name, quote);
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

/// The largest count in "2(x3),1" (three nodes with two tasks each, one with one), or in a plain "2".
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
    launch.local_size = launch.world_size;  // on one node, tasks per node may be only what was requested
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

  if (launcher.starter != nullptr) launch.job = ancestor_running(launcher.starter);
  const bool named = !launch.job.empty();
  for (const char* name : launcher.job) {
    const auto text = named || name == nullptr ? std::nullopt : lookup(name);
    if (text && !text->empty()) launch.job += format("{}{}", launch.job.empty() ? "" : ".", *text);
  }
  if (launch.job.empty()) {
    const std::string no_starter =
        launcher.starter == nullptr ? "" : format(", and there is no process {} above it", launcher.starter);
    throw InvalidArgument(
        format("{} is not set, though {} ('{}') says that {} started this process{}; allowed: a name "
               "that all ranks of the job share and no other job has",
               launcher.job[0], shown.name, shown.text, launcher.name, no_starter));
  }
  return launch;
}

std::string known_launchers() {
  std::string names;
  for (const Launcher& launcher : launchers) names += format("{}{}", names.empty() ? "" : ", ", launcher.name);
  return names;
}

/// Whether the launcher may have started several ranks: if it says that it started one, another launcher is preferred.
bool starts_several(const Launcher& launcher, const Env::Lookup& lookup) {
  const auto size = find(lookup, launcher.world_size);
  return !size || size->text != "1";
}

/// Whether both give this process the same rank and world size, as when a script exports one launcher's values under
/// torchrun's names. Never for `tandem run`, which sets its own values: some ranks' would be equal by coincidence.
bool say_the_same(const Launcher& one, const Launcher& other, const Env::Lookup& lookup) {
  if (&one == launchers.data()) return false;
  const auto same = [&](const Names& first, const Names& second) {
    const auto a = find(lookup, first);
    const auto b = find(lookup, second);
    return a && b && a->text == b->text;
  };
  return same(one.rank, other.rank) && same(one.world_size, other.world_size);
}

// With nested launchers a process inherits the outer one's variables, and nothing in them says which one is the outer.
[[noreturn]] void refuse_both(const Launcher& one, const Launcher& other, const Env::Lookup& lookup) {
  const Value first = *find(lookup, one.shown_by);
  const Value second = *find(lookup, other.shown_by);
  throw InvalidArgument(
      format("{} is '{}', so {} started this process, and {} is '{}', so {} did; allowed: one of them that "
             "starts more than one rank (env -u {} takes away what shows the first, env -u {} the second)",
             first.name, first.text, one.name, second.name, second.text, other.name, list(one.shown_by, " -u ", ""),
             list(other.shown_by, " -u ", "")));
}

}  // namespace

Launch Launch::detect() {
  return detect([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

Launch Launch::detect(const Env::Lookup& lookup) {
  const Launcher* found = nullptr;
  for (const Launcher& launcher : launchers) {
    if (!find(lookup, launcher.shown_by)) continue;
    if (found == nullptr) {
      found = &launcher;
      continue;
    }
    if (launcher.nodes[0] != nullptr) continue;  // srun: other launchers may run inside its allocations
    if (!starts_several(launcher, lookup) || say_the_same(*found, launcher, lookup)) continue;
    if (starts_several(*found, lookup)) refuse_both(*found, launcher, lookup);
    found = &launcher;
  }
  if (found != nullptr) return read(*found, lookup, *find(lookup, found->shown_by));
  // Also set by other launchers, for MPI, and in torchrun's way without what shows torchrun.
  for (const char* name : {"PMI_SIZE", "WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PALS_SIZE"}) {
    const auto size = find(lookup, Names{name});
    if (!size || size->text == "1") continue;
    throw InvalidArgument(
        format("{} is '{}', so a launcher started this process as one of several, but none that is known shows "
               "itself; allowed: one of {}, or TANDEM_RANK, TANDEM_WORLD_SIZE and TANDEM_JOB in the environment{}",
               size->name, size->text, known_launchers(),
               size->name == "WORLD_SIZE" ? "; torchrun shows itself by LOCAL_WORLD_SIZE" : ""));
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
    text += format(
        "| {} | {} | {} | {} | {} | {} | {} | {} |\n", launcher.name, list(launcher.shown_by, " or "),
        list(launcher.rank, ", else "), list(launcher.world_size, ", else "), list(launcher.local_rank, ", else "),
        (launcher.nodes[0] == nullptr ? "" : "world size on one node, else ") + list(launcher.local_size, ", else "),
        launcher.nodes[0] == nullptr ? "world size / local size" : list(launcher.nodes, ", else "),
        (launcher.starter == nullptr ? "" : format("process `{}`, else ", launcher.starter)) +
            list(launcher.job, " + "));
  }
  text += "| none | none of these | 0 | 1 | 0 | 1 | 1 | the process id |\n";
  return text;
}

}  // namespace tandem

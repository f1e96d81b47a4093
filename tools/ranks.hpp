// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "tandem/team/world.hpp"

#include "tools/command.hpp"

namespace tandem::tools {

/// The ranks that a command runs on, as its options -n, --device, --link and --bind say.
struct RankOptions {
  std::optional<int> ranks{};           ///< none: as the launcher says, or one for each GPU, or `on_host`
  std::optional<std::string> device{};  ///< none: as TANDEM_DEVICE says
  std::optional<LinkOptions> link{};
  int on_host = 2;             ///< how many ranks there where nobody says
  std::optional<bool> bind{};  ///< each rank to its share of the CPUs; none: on the host, where they divide evenly
};

/// Adds those options to a command. `options` outlives the parsing.
void add_rank_options(CLI::App& app, RankOptions& options);

/// This process's environment, and the options over it. Throws InvalidArgument where they do not go together.
[[nodiscard]] Env environment(const RankOptions& options);

/// How many ranks a command has, be it started by a launcher or not.
[[nodiscard]] int rank_count(const RankOptions& options, DeviceType device);

/// Joins the world that a command is to run in. In a process that a launcher started (`tandem run`, torchrun, mpirun,
/// srun) that is the launcher's; -n may then be left out, or say the same. Otherwise the process becomes `tandem run`
/// with this same command line, and does not come back; one rank needs no launcher.
[[nodiscard]] World join(const RankOptions& options, const char* command, Arguments arguments);
/// The same in another environment than those options say.
[[nodiscard]] World join(const RankOptions& options, Env env, const char* command, Arguments arguments);

}  // namespace tandem::tools

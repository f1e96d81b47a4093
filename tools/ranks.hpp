// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "tandem/team/world.hpp"

#include "tools/command.hpp"

namespace tandem::tools {

/// The ranks that a command runs on, from its options -n, --device, --link and --bind.
struct RankOptions {
  std::optional<int> ranks{};            ///< none: the launcher's number, or one for each GPU, or `on_host`
  std::optional<DeviceChoice> device{};  ///< none: TANDEM_DEVICE
  std::optional<LinkOptions> link{};
  int on_host = 2;             ///< the default number of ranks on the host
  std::optional<bool> bind{};  ///< pin each rank to its share of the CPUs; none: on the host, if they divide evenly
};

/// Adds those options to a command. `options` must outlive the parsing.
void add_rank_options(CLI::App& app, RankOptions& options);

/// This process's environment, overridden by the options. Throws InvalidArgument if they contradict each other.
[[nodiscard]] Env environment(const RankOptions& options);

/// How many ranks a command has, whether or not a launcher started it.
[[nodiscard]] int rank_count(const RankOptions& options, DeviceType device);

/// Joins the world that a command runs in. A process that a launcher started (`tandem run`, torchrun, mpirun, srun)
/// joins the launcher's world; -n may then be omitted, or must equal its size. Otherwise the process replaces itself
/// with `tandem run` of this command line and does not return, except that a single rank needs no launcher.
[[nodiscard]] World join(const RankOptions& options, const char* command, Arguments arguments);
/// As above, but with `env` instead of the environment that the options specify.
[[nodiscard]] World join(const RankOptions& options, Env env, const char* command, Arguments arguments);

}  // namespace tandem::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/base/env.hpp"
#include "tandem/base/export.hpp"

namespace tandem {

/// What a launcher told this process about itself.
struct TANDEM_API Launch {
  int rank = 0;  ///< in the world, 0 ≤ rank < world_size
  int world_size = 1;
  int local_rank = 0;    ///< among the ranks of this node
  int local_size = 1;    ///< how many ranks this node has
  int nodes = 1;         ///< how many nodes the job spans
  std::string job;       ///< the same on all ranks of a job, and different for two jobs of one user at one time
  std::string launcher;  ///< "tandem run", "torchrun", "mpirun", "mpiexec.hydra", "srun", "none"

  /// Reads the environment of the launcher that shows itself; a process without one is a world of one. Of several, the
  /// one that started more than one rank counts, and srun after all others. Throws InvalidArgument for two such, and
  /// for a variable that is missing or malformed, with its name, its value and what is allowed.
  [[nodiscard]] static Launch detect();
  [[nodiscard]] static Launch detect(const Env::Lookup& lookup);
  /// The Markdown table of launchers and the variables read of each, as docs/launchers.md holds it.
  [[nodiscard]] static std::string table();
};

}  // namespace tandem

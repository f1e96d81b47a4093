// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/base/env.hpp"
#include "tandem/base/export.hpp"

namespace tandem {

/// The largest world.
inline constexpr int max_ranks = 1 << 16;

/// What the launcher told this process about its place in the job.
struct TANDEM_API Launch {
  int rank = 0;            ///< in the world, 0 ≤ rank < world_size
  int world_size = 1;      ///< at most `max_ranks`
  int local_rank = 0;      ///< among the ranks of this node
  int local_size = 1;      ///< how many ranks this node has
  int nodes = 1;           ///< how many nodes the job spans
  std::string job{};       ///< equal on all ranks of a job; differs between concurrent jobs of one user
  std::string launcher{};  ///< "tandem run", "torchrun", "mpirun", "mpiexec.hydra", "srun", "none"

  /// Reads the variables of the launcher found in the environment; without one, a world of one. Of several, srun yields
  /// to the others, and the one that started more than one rank is used. Throws InvalidArgument if two others did (and
  /// name different ranks), and for a missing or malformed variable, with its name, its value and what is allowed.
  [[nodiscard]] static Launch detect();
  [[nodiscard]] static Launch detect(const Env::Lookup& lookup);
  /// The Markdown table of launchers and the variables read for each, as in docs/launchers.md.
  [[nodiscard]] static std::string table();
};

}  // namespace tandem

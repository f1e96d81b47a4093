// SPDX-License-Identifier: Apache-2.0
#include "tools/cores.hpp"

#include <cstddef>

namespace tandem::tools {

std::vector<cpu_set_t> divide_cores(int ranks) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};  // more CPUs than bits in a cpu_set_t
  std::vector<std::size_t> cores;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cores.push_back(cpu);
  }
  const auto count = static_cast<std::size_t>(ranks);
  if (count > cores.size() && count % cores.size() != 0) return {};
  std::vector<cpu_set_t> shares(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    CPU_ZERO(&shares[rank]);
    const std::size_t begin = rank * cores.size() / count;
    const std::size_t end = (rank + 1) * cores.size() / count;
    for (std::size_t at = begin; at < (end == begin ? begin + 1 : end); ++at) CPU_SET(cores[at], &shares[rank]);
  }
  return shares;
}

}  // namespace tandem::tools

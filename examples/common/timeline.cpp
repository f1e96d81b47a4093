// SPDX-License-Identifier: Apache-2.0
#include "common/timeline.hpp"

#include <fstream>
#include <vector>

#include "tandem/base/trace.hpp"
#include "tandem/device/device.hpp"

#include "common/over_ranks.hpp"

namespace tandem::examples {

void write_timeline(const World& world, StreamRef stream, const std::string& path, const std::function<void()>& body) {
  Trace& trace = world.device().trace();
  world.team().barrier();
  trace.enable(true);
  body();
  world.team().synchronize(stream);
  world.device().trace_collect();
  trace.enable(false);
  const std::vector<std::string> ranks = gathered(world.team(), trace.chrome_events(world.rank()));
  if (world.rank() == 0) std::ofstream(path) << Trace::chrome_document(ranks);
}

}  // namespace tandem::examples

// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "fault/operations.hpp"
#include "support/cuda/captured_graph.hpp"

namespace tandem::fault {

Work replayed(Stage& stage, const Work& queue) {
  return [&stage, queue, graph = std::shared_ptr<testing::CapturedGraph>()]() mutable {
    if (graph == nullptr) {
      graph = std::make_shared<testing::CapturedGraph>(stage.team.device(), stage.stream, queue);
    }
    graph->launch(stage.stream);
  };
}

}  // namespace tandem::fault

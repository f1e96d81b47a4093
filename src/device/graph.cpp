// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/graph.hpp"

#include <utility>

#include "tandem/device/device.hpp"

namespace tandem {

Graph::Graph(Device& device, StreamRef stream, const std::function<void()>& body)
    : device_(device.shared_from_this()), handle_(device.graph_create(stream, body)) {}

Graph::Graph(Graph&& other) noexcept
    : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Graph::~Graph() {
  if (handle_ != nullptr) device_->graph_destroy(handle_);
}

void Graph::launch(StreamRef stream) const { device_->graph_launch(handle_, stream); }

}  // namespace tandem

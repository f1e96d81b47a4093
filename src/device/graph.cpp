// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/graph.hpp"

#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

Graph::Graph(Device& device, StreamRef stream, const std::function<void()>& body)
    : device_(device.shared_from_this()), handle_(device.graph_create(stream, body)) {}

Graph::Graph(Graph&& other) noexcept
    : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  Graph taken(std::move(other));  // and then destroys what this had
  std::swap(device_, taken.device_);
  std::swap(handle_, taken.handle_);
  return *this;
}

Graph::~Graph() {
  if (handle_ != nullptr) device_->graph_destroy(handle_);
}

void Graph::launch(StreamRef stream) const {
  if (device_ == nullptr) throw InvalidArgument("a graph was launched that was moved from");
  device_->graph_launch(handle_, stream);
}

}  // namespace tandem

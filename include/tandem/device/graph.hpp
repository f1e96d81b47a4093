// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/device/stream.hpp"

namespace tandem {

/// Work that is recorded once and run again by each launch, without host calls for its single operations: a CUDA graph,
/// for programs that do not use the CUDA runtime themselves. It keeps its device alive, and the plans whose runs it
/// recorded; memory, and a Gemm of Device::gemm, must be kept alive by the caller. The destructor does not wait: what
/// was launched still runs.
class TANDEM_API Graph {
 public:
  /// Records what `body` queues on `stream`, and on streams that `body` makes wait for it, instead of running it.
  /// Throws Unsupported if the device cannot record graphs (the host; see Device::records_graphs), DeviceError if
  /// something in `body` cannot be recorded, and what `body` throws; after an error the stream is as before.
  Graph(Device& device, StreamRef stream, const std::function<void()>& body);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  /// Queues one run of the graph. Launches of one graph run one after the other, even on different streams. Throws
  /// InvalidArgument if the graph was moved from.
  void launch(StreamRef stream) const;
  /// The device's own handle: a cudaGraphExec_t.
  [[nodiscard]] void* native_handle() const noexcept { return handle_; }

 private:
  std::shared_ptr<Device> device_;  // null once moved from
  void* handle_;
};
static_assert(Owner<Graph>);

}  // namespace tandem

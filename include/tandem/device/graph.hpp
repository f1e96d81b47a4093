// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <type_traits>

#include "tandem/base/export.hpp"
#include "tandem/device/stream.hpp"

namespace tandem {

/// Work that was recorded once and that each launch runs again, without the host's calls for its parts: a CUDA graph,
/// for programs that have no CUDA runtime of their own. It keeps its device alive, and the plans whose runs it
/// recorded; memory, and products of Device::gemm, its owner keeps. The destructor does not wait: what was launched
/// still runs.
class TANDEM_API Graph {
 public:
  /// Records what `body` queues on `stream`, and on streams that it ties to that one, instead of running it. Throws
  /// Unsupported where the device records nothing (the host), DeviceError where something in `body` cannot be recorded,
  /// and what `body` throws; the stream is as before then.
  Graph(Device& device, StreamRef stream, const std::function<void()>& body);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  /// Queues all of it. Launches of one graph run one after the other, on whatever streams.
  void launch(StreamRef stream) const;
  /// The device's own handle: a cudaGraphExec_t.
  [[nodiscard]] void* native_handle() const noexcept { return handle_; }

 private:
  std::shared_ptr<Device> device_;
  void* handle_;
};

static_assert(!std::is_copy_constructible_v<Graph> && std::is_nothrow_move_constructible_v<Graph>);

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <functional>

namespace tandem::cuda {

/// Captures what `body` queues on `stream` into a graph that can be launched. Throws DeviceError, and what `body`
/// throws; the stream is captured no longer then.
[[nodiscard]] cudaGraphExec_t capture_graph(cudaStream_t stream, const std::function<void()>& body);

}  // namespace tandem::cuda

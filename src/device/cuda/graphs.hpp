// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <functional>

namespace tandem::cuda {

/// Captures what `body` queues on `stream` into an executable graph. Throws DeviceError, and what `body` throws; then
/// the capture has ended, too.
[[nodiscard]] cudaGraphExec_t capture_graph(cudaStream_t stream, const std::function<void()>& body);

}  // namespace tandem::cuda

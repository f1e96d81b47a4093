// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "device/cuda/check.hpp"

namespace tandem::cuda {

/// The graph that a stream is being captured into, or nullptr if none is. Throws DeviceError for a capture that was
/// invalidated.
[[nodiscard]] inline cudaGraph_t captured_graph(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
#if CUDART_VERSION >= 13000
  check(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph), "cudaStreamGetCaptureInfo");
#else
  check(cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph), "cudaStreamGetCaptureInfo");
#endif
  if (status == cudaStreamCaptureStatusInvalidated) {
    check(cudaErrorStreamCaptureInvalidated, "cudaStreamGetCaptureInfo");
  }
  return status == cudaStreamCaptureStatusActive ? graph : nullptr;
}

}  // namespace tandem::cuda

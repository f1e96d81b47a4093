// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tandem/device/device.hpp"

#define TANDEM_EXPECT_CUDA(call) ASSERT_EQ(call, cudaSuccess) << cudaGetErrorString(cudaGetLastError())

namespace tandem::testing {

/// A CUDA graph as a user's program captures it. For tests that link a CUDA runtime of their own.
class CapturedGraph {
 public:
  /// Records what `body` queues on `stream`, and on streams that join its capture.
  template <typename Body>
  CapturedGraph(Device& device, StreamRef stream, const Body& body,
                cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    capture(device, native(stream), body, mode);
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  ~CapturedGraph() { EXPECT_EQ(cudaGraphExecDestroy(replay_), cudaSuccess); }

  void launch(StreamRef stream) const { TANDEM_EXPECT_CUDA(cudaGraphLaunch(replay_, native(stream))); }

  [[nodiscard]] static cudaStream_t native(StreamRef stream) {
    return static_cast<cudaStream_t>(stream.native_handle());
  }

 private:
  template <typename Body>
  void capture(Device& device, cudaStream_t stream, const Body& body, cudaStreamCaptureMode mode) {
    TANDEM_EXPECT_CUDA(cudaSetDevice(device.id().index));
    TANDEM_EXPECT_CUDA(cudaStreamBeginCapture(stream, mode));
    cudaGraph_t graph = nullptr;
    try {
      body();
    } catch (...) {  // an open capture would make most CUDA calls of the process fail
      cudaStreamEndCapture(stream, &graph);
      cudaGraphDestroy(graph);
      throw;
    }
    TANDEM_EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
    TANDEM_EXPECT_CUDA(cudaGraphInstantiate(&replay_, graph, 0));
    TANDEM_EXPECT_CUDA(cudaGraphDestroy(graph));
  }

  cudaGraphExec_t replay_ = nullptr;
};

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/graphs.hpp"

#include "device/cuda/check.hpp"

namespace tandem::cuda {

cudaGraphExec_t capture_graph(cudaStream_t stream, const std::function<void()>& body) {
  // Thread-local, so that unsafe CUDA calls that other threads make meanwhile do not invalidate the capture.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {  // a capture left open would make most CUDA calls of this thread fail
    ignore(cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) ignore(cudaGraphDestroy(graph));
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t replay = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&replay, graph, 0);
  ignore(cudaGraphDestroy(graph));  // the executable graph has a copy
  check(made, "cudaGraphInstantiate");
  return replay;
}

}  // namespace tandem::cuda

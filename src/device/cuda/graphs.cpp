// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/graphs.hpp"

#include "device/cuda/check.hpp"

namespace tandem::cuda {

cudaGraphExec_t capture_graph(cudaStream_t stream, const std::function<void()>& body) {
  // Of this thread alone: what other threads of the process call meanwhile is not this capture's business.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {  // a capture left open would forbid this thread most of CUDA
    ignore(cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) ignore(cudaGraphDestroy(graph));
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t replay = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&replay, graph, 0);
  ignore(cudaGraphDestroy(graph));  // what can be launched has a copy
  check(made, "cudaGraphInstantiate");
  return replay;
}

}  // namespace tandem::cuda

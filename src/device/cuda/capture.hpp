// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <memory>

#include "tandem/base/error.hpp"

#include "device/cuda/check.hpp"

namespace tandem::cuda {

/// The graph capture in progress on a stream; `number` is 0 and `graph` null if there is none.
struct Capture {
  unsigned long long number = 0;  ///< unique among the captures of this process
  cudaGraph_t graph = nullptr;
};

/// Throws InvalidArgument for a capture that a call which captures do not allow has made invalid, and for a default
/// stream that may not be used during another stream's.
[[nodiscard]] inline Capture capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  Capture capture;
#if CUDART_VERSION >= 13000
  const cudaError_t result = cudaStreamGetCaptureInfo(stream, &status, &capture.number, &capture.graph);
#else
  const cudaError_t result = cudaStreamGetCaptureInfo_v2(stream, &status, &capture.number, &capture.graph);
#endif
  if (result == cudaErrorStreamCaptureImplicit) {
    ignore(result);
    throw InvalidArgument(
        "the default stream was given while a stream that it waits for is being captured; allowed: a stream of one's "
        "own, or a capture of a stream made with cudaStreamNonBlocking");
  }
  check(result, "cudaStreamGetCaptureInfo");
  if (status == cudaStreamCaptureStatusInvalidated) {
    throw InvalidArgument(
        "the stream is in a capture that a call made invalid; allowed: a stream whose capture is valid, or has ended");
  }
  return status == cudaStreamCaptureStatusActive ? capture : Capture{};
}

/// Makes a graph, and everything made from it, share ownership of `object`. The last of them destroys it, on a driver
/// thread that must not call CUDA.
template <typename T> T* give_to_graph(cudaGraph_t graph, std::unique_ptr<T> object) {
  cudaUserObject_t owner = nullptr;
  check(cudaUserObjectCreate(
            &owner, object.get(), [](void* data) { delete static_cast<T*>(data); }, 1, cudaUserObjectNoDestructorSync),
        "cudaUserObjectCreate");
  T* const given = object.release();
  const cudaError_t moved = cudaGraphRetainUserObject(graph, owner, 1, cudaGraphUserObjectMove);
  if (moved != cudaSuccess) ignore(cudaUserObjectRelease(owner, 1));
  check(moved, "cudaGraphRetainUserObject");
  return given;
}

}  // namespace tandem::cuda

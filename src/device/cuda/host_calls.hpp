// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace tandem::cuda {

/// Functions of the host's in streams, and what they threw.
class HostCalls {
 public:
  /// Queues `function`. While `stream` is being captured, the graph owns the function and runs it at each replay.
  void launch(cudaStream_t stream, std::function<void()> function);
  /// Throws what a function queued on `stream`, or captured there, threw first since the last call.
  void rethrow(cudaStream_t stream);
  /// The same for one of all streams that have something to throw.
  void rethrow_any();
  /// Drops what functions of `stream` threw and will throw: its handle may come back for another stream.
  void forget(cudaStream_t stream) noexcept;

 private:
  struct Failure;
  struct Call;

  [[nodiscard]] std::shared_ptr<Failure> failure_of(cudaStream_t stream);

  std::mutex mutex_;
  std::map<cudaStream_t, std::shared_ptr<Failure>> failures_;
};

}  // namespace tandem::cuda

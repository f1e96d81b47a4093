// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace tandem::cuda {

/// Host functions queued on streams, and the exceptions that they threw.
class HostCalls {
 public:
  /// Queues `function`. While `stream` is being captured, the graph owns the function and runs it at each replay.
  void launch(cudaStream_t stream, std::function<void()> function);
  /// Rethrows the first exception since the last call of a function queued on `stream` or captured there.
  void rethrow(cudaStream_t stream);
  /// As `rethrow`, for one of the streams whose functions have thrown.
  void rethrow_any();
  /// Discards what functions of `stream` have thrown and will throw: CUDA may reuse its handle for another stream.
  void forget(cudaStream_t stream) noexcept;

 private:
  struct Failure;
  struct Call;

  [[nodiscard]] std::shared_ptr<Failure> failure_of(cudaStream_t stream);

  std::mutex mutex_;
  std::map<cudaStream_t, std::shared_ptr<Failure>> failures_;
};

}  // namespace tandem::cuda

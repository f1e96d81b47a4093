// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <exception>
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
  /// Throws what a function queued on `stream` threw first since the last call.
  void rethrow(cudaStream_t stream);
  /// The same for all streams.
  void rethrow_any();
  /// Drops what `stream` threw: its handle may come back for another stream.
  void forget(cudaStream_t stream) noexcept;

 private:
  struct Failures {
    std::mutex mutex;
    std::map<cudaStream_t, std::exception_ptr> first;
  };
  struct Call;

  // Shared with the functions under way, which may end after the device.
  std::shared_ptr<Failures> failures_ = std::make_shared<Failures>();
};

}  // namespace tandem::cuda

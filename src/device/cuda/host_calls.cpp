// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/host_calls.hpp"

#include <exception>
#include <utility>

#include "device/cuda/capture.hpp"
#include "device/cuda/check.hpp"

namespace tandem::cuda {

/// The first exception of a stream's functions, which share ownership: they may outlive the stream, whose handle may
/// then belong to another stream.
struct HostCalls::Failure {
  std::mutex mutex;
  std::exception_ptr first;

  [[nodiscard]] std::exception_ptr take() {
    const std::lock_guard lock(mutex);
    return std::exchange(first, nullptr);
  }
};

struct HostCalls::Call {
  std::function<void()> function;
  std::shared_ptr<Failure> failure;

  void operator()() const noexcept {
    try {
      function();
    } catch (...) {
      const std::lock_guard lock(failure->mutex);
      if (!failure->first) failure->first = std::current_exception();
    }
  }
};

void HostCalls::launch(cudaStream_t stream, std::function<void()> function) {
  auto call = std::make_unique<Call>(Call{std::move(function), failure_of(stream)});
  if (const Capture capture = capture_of(stream); capture.graph != nullptr) {
    Call* owned = give_to_graph(capture.graph, std::move(call));
    check(cudaLaunchHostFunc(
              stream, [](void* data) { (*static_cast<const Call*>(data))(); }, owned),
          "cudaLaunchHostFunc");
    return;
  }
  // Released before the call: when cudaLaunchHostFunc returns, the function may have run and been destroyed.
  Call* owned = call.release();
  const cudaError_t queued = cudaLaunchHostFunc(
      stream,
      [](void* data) {
        const std::unique_ptr<Call> once(static_cast<Call*>(data));
        (*once)();
      },
      owned);
  if (queued != cudaSuccess) call.reset(owned);
  check(queued, "cudaLaunchHostFunc");
}

std::shared_ptr<HostCalls::Failure> HostCalls::failure_of(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Failure>& failure = failures_[stream];
  if (!failure) failure = std::make_shared<Failure>();
  return failure;
}

void HostCalls::rethrow(cudaStream_t stream) {
  std::exception_ptr thrown;
  {
    const std::lock_guard lock(mutex_);
    const auto found = failures_.find(stream);
    if (found != failures_.end()) thrown = found->second->take();
  }
  if (thrown) std::rethrow_exception(thrown);
}

void HostCalls::rethrow_any() {
  std::exception_ptr thrown;
  {
    const std::lock_guard lock(mutex_);
    for (auto each = failures_.begin(); !thrown && each != failures_.end(); ++each) thrown = each->second->take();
  }
  if (thrown) std::rethrow_exception(thrown);
}

void HostCalls::forget(cudaStream_t stream) noexcept {
  const std::lock_guard lock(mutex_);
  failures_.erase(stream);
}

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/host_calls.hpp"

#include <utility>

#include "device/cuda/capture.hpp"
#include "device/cuda/check.hpp"

namespace tandem::cuda {

struct HostCalls::Call {
  std::function<void()> function;
  cudaStream_t stream;
  std::shared_ptr<Failures> failures;

  void operator()() const noexcept {
    try {
      function();
    } catch (...) {
      const std::lock_guard lock(failures->mutex);
      failures->first.try_emplace(stream, std::current_exception());
    }
  }
};

void HostCalls::launch(cudaStream_t stream, std::function<void()> function) {
  auto call = std::make_unique<Call>(Call{std::move(function), stream, failures_});
  if (const Capture capture = capture_of(stream); capture.graph != nullptr) {
    Call* owned = give_to_graph(capture.graph, std::move(call));
    check(cudaLaunchHostFunc(
              stream, [](void* data) { (*static_cast<const Call*>(data))(); }, owned),
          "cudaLaunchHostFunc");
    return;
  }
  // Given away before the call: the function may have run, and be gone, when cudaLaunchHostFunc returns.
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

void HostCalls::rethrow(cudaStream_t stream) {
  std::exception_ptr thrown;
  {
    const std::lock_guard lock(failures_->mutex);
    const auto found = failures_->first.find(stream);
    if (found == failures_->first.end()) return;
    thrown = std::move(found->second);
    failures_->first.erase(found);
  }
  std::rethrow_exception(thrown);
}

void HostCalls::rethrow_any() {
  std::exception_ptr thrown;
  {
    const std::lock_guard lock(failures_->mutex);
    if (failures_->first.empty()) return;
    thrown = std::move(failures_->first.begin()->second);
    failures_->first.clear();
  }
  std::rethrow_exception(thrown);
}

void HostCalls::forget(cudaStream_t stream) noexcept {
  const std::lock_guard lock(failures_->mutex);
  failures_->first.erase(stream);
}

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "device/cuda/context.hpp"
#include "device/cuda/cublaslt.hpp"

namespace tandem::cuda {

/// cuBLASLt's state on one device. Thread-safe; it owns no workspace.
class BlasHandle {
 public:
  explicit BlasHandle(std::shared_ptr<const Context> context)
      : library_(CublasLt::get()), context_(std::move(context)) {
    const CurrentContext current(*context_);
    library_.check(library_.cublasLtCreate(&handle_), "cublasLtCreate");
  }
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;
  ~BlasHandle() {
    const CurrentContext current(*context_);
    static_cast<void>(library_.cublasLtDestroy(handle_));
  }

  [[nodiscard]] const CublasLt& library() const noexcept { return library_; }
  [[nodiscard]] cublasLtHandle_t get() const noexcept { return handle_; }

 private:
  const CublasLt& library_;
  std::shared_ptr<const Context> context_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace tandem::cuda

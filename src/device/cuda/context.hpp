// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "device/cuda/driver.hpp"

namespace tandem::cuda {

/// Retains a device's primary context, which the CUDA runtime, cuBLAS and PyTorch use too.
class Context {
 public:
  explicit Context(int device);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  [[nodiscard]] CUcontext handle() const noexcept { return handle_; }

 private:
  CUdevice device_ = 0;
  CUcontext handle_ = nullptr;
};

/// Makes a context current for the calling thread while this lives, then restores the previous one. It saves the
/// context, not the device number: cudaSetDevice(cudaGetDevice()) would create a context on device 0 for a thread
/// that had none.
class CurrentContext {
 public:
  explicit CurrentContext(const Context& context) noexcept;
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();

 private:
  CUcontext previous_ = nullptr;
  bool changed_ = false;
};

static_assert(!std::is_copy_constructible_v<Context> && !std::is_copy_constructible_v<CurrentContext>);

}  // namespace tandem::cuda

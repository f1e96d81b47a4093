// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/context.hpp"

#include <cuda_runtime_api.h>

#include "device/cuda/check.hpp"

namespace tandem::cuda {

Context::Context(int device) {
  const Driver& driver = Driver::get();
  // First, so that the runtime retains the context itself and ours is never the last reference.
  check(cudaInitDevice(device, 0, 0), "cudaInitDevice");
  driver.check(driver.cuDeviceGet(&device_, device), "cuDeviceGet");
  driver.check(driver.cuDevicePrimaryCtxRetain(&handle_, device_), "cuDevicePrimaryCtxRetain");
}

Context::~Context() { static_cast<void>(Driver::get().cuDevicePrimaryCtxRelease(device_)); }

// Errors are ignored: a context that cannot be made current is unusable, and the next checked call reports that.
CurrentContext::CurrentContext(const Context& context) noexcept {
  const Driver& driver = Driver::get();
  static_cast<void>(driver.cuCtxGetCurrent(&previous_));
  changed_ = previous_ != context.handle();
  if (changed_) static_cast<void>(driver.cuCtxSetCurrent(context.handle()));
}

CurrentContext::~CurrentContext() {
  if (changed_) static_cast<void>(Driver::get().cuCtxSetCurrent(previous_));
}

}  // namespace tandem::cuda

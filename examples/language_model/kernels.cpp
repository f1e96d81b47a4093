// SPDX-License-Identifier: Apache-2.0
#include "language_model/kernels.hpp"

#include <string>

#include "tandem/base/error.hpp"

#include "language_model/cuda_kernels.hpp"
#include "language_model/host_kernels.hpp"

namespace tandem::language_model {

void refuse_dtype() { throw Unsupported("the language model computes in f32, f16 or bf16"); }

void refuse_call(const char* what, const char* why) { throw DeviceError(std::string(what) + ": " + why); }

std::unique_ptr<Kernels> make_kernels(Device& device) {
  if (device.id().type == DeviceType::host) return make_host_kernels(device);
#ifdef TANDEM_WITH_CUDA
  return make_cuda_kernels(device);
#else
  throw Unsupported("the language model was built without CUDA");
#endif
}

}  // namespace tandem::language_model

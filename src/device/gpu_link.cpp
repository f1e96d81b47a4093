// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/gpu_link.hpp"

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "base/format.hpp"

#if defined(TANDEM_WITH_CUDA)
#include "device/cuda/gpu_link.hpp"
#endif

namespace tandem {

std::string describe_gpu_link(int one, int other) {
#if defined(TANDEM_WITH_CUDA)
  const int count = device_count(DeviceType::cuda);
  if (one == other || one < 0 || other < 0 || one >= count || other >= count) {
    throw InvalidArgument(
        format("the link between cuda:{} and cuda:{}; allowed: two different GPUs of the {} that "
               "this process can use, numbered from 0",
               one, other, count));
  }
  return cuda::describe_gpu_link(one, other);
#else
  throw Unsupported(format("the link between cuda:{} and cuda:{}: built without CUDA", one, other));
#endif
}

}  // namespace tandem

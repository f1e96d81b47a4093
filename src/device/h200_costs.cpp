// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/h200_costs.hpp"

#include "tandem/base/error.hpp"

#if defined(TANDEM_WITH_CUDA)
#include "device/cuda/costs.hpp"
#endif

namespace tandem {

CostTable h200_costs() {
#if defined(TANDEM_WITH_CUDA)
  cuda::Properties properties;
  properties.multiprocessors = 132;
  properties.memory_bytes_per_second = 4.9e12;  // as its driver says
  return cuda::costs_of(properties);
#else
  throw Unsupported("the costs of an H200: built without CUDA");
#endif
}

}  // namespace tandem

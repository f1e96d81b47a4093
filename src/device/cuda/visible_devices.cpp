// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/visible_devices.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <memory>

#include "device/cuda/visible_list.hpp"

namespace tandem::cuda {
namespace {

/// GPUs of the machine (or container). The toolkit has no nvml.h; these prototypes have been the same since NVML 2.
std::optional<int> count_by_nvml() {
  const std::unique_ptr<void, int (*)(void*)> library(
      dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL),
      [](void* handle) { return handle == nullptr ? 0 : dlclose(handle); });
  if (library == nullptr) return std::nullopt;
  const auto start = reinterpret_cast<int (*)()>(dlsym(library.get(), "nvmlInit_v2"));
  const auto count = reinterpret_cast<int (*)(unsigned*)>(dlsym(library.get(), "nvmlDeviceGetCount_v2"));
  const auto stop = reinterpret_cast<int (*)()>(dlsym(library.get(), "nvmlShutdown"));
  if (start == nullptr || count == nullptr || stop == nullptr || start() != 0) return std::nullopt;
  unsigned devices = 0;
  const int result = count(&devices);
  stop();
  if (result != 0) return std::nullopt;
  return static_cast<int>(devices);
}

}  // namespace

std::optional<int> count_visible_devices() {
  const std::optional<int> all = count_by_nvml();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!all || visible == nullptr) return all;
  return count_listed(visible, *all);
}

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/visible_devices.hpp"

#include <cstdlib>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <exception>
#include <memory>
#include <optional>

#include "base/format.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/visible_list.hpp"

namespace tandem {
namespace {

using cuda::Driver;

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

/// How many GPUs this process sees, told by NVML and CUDA_VISIBLE_DEVICES. CUDA itself is not started, so that a
/// launcher or a test may ask and then fork: a child of a process that has started CUDA cannot use it. None where only
/// CUDA can say: NVML is missing, or devices are named by UUIDs.
std::optional<int> count_without_cuda() {
  const std::optional<int> all = count_by_nvml();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!all || visible == nullptr) return all;
  return cuda::count_listed(visible, *all);
}

}  // namespace

int cuda_device_count() noexcept try {
  if (!Driver::why_not_loaded().empty()) return 0;
  if (!Driver::is_started()) {
    if (const std::optional<int> visible = count_without_cuda()) return *visible;
  }
  if (!Driver::why_not_started().empty()) return 0;
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  cuda::ignore(result);
  return result == cudaSuccess ? count : 0;
} catch (const std::exception&) {
  return 0;  // no memory for the reason
}

std::string why_no_cuda_device() {
  if (!Driver::why_not_loaded().empty()) return Driver::why_not_loaded();
  if (cuda_device_count() > 0) return {};
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    return format("no GPU is seen with CUDA_VISIBLE_DEVICES='{}'", visible);
  }
  if (!Driver::why_not_started().empty()) return Driver::why_not_started();
  return "the driver sees no GPU";
}

}  // namespace tandem

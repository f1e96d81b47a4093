// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/visible_devices.hpp"

#include <array>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/visible_list.hpp"

namespace tandem {
namespace {

using cuda::Driver;

/// The UUIDs of the machine's (or container's) GPUs. The toolkit has no nvml.h; these prototypes have been the same
/// since NVML 2.
std::optional<std::vector<std::string>> uuids_by_nvml() {
  const std::unique_ptr<void, int (*)(void*)> library(
      dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL),
      [](void* handle) { return handle == nullptr ? 0 : dlclose(handle); });
  if (library == nullptr) return std::nullopt;
  const auto function = [&]<typename Function>(Function*& pointer, const char* name) {
    pointer = reinterpret_cast<Function*>(dlsym(library.get(), name));
    return pointer != nullptr;
  };
  int (*start)() = nullptr;
  int (*stop)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*open)(unsigned, void**) = nullptr;
  int (*uuid_of)(void*, char*, unsigned) = nullptr;
  const bool has_all = function(start, "nvmlInit_v2") && function(stop, "nvmlShutdown") &&
                       function(count, "nvmlDeviceGetCount_v2") && function(open, "nvmlDeviceGetHandleByIndex_v2") &&
                       function(uuid_of, "nvmlDeviceGetUUID");
  if (!has_all || start() != 0) return std::nullopt;
  const auto list = [&]() -> std::optional<std::vector<std::string>> {
    unsigned gpus = 0;
    if (count(&gpus) != 0) return std::nullopt;
    std::vector<std::string> uuids;
    for (unsigned gpu = 0; gpu < gpus; ++gpu) {
      void* handle = nullptr;
      std::array<char, 96> uuid{};  // as NVML's header says is always enough
      // One that does not tell its name is there all the same.
      const bool told = open(gpu, &handle) == 0 && uuid_of(handle, uuid.data(), uuid.size()) == 0;
      uuids.emplace_back(told ? uuid.data() : "");
    }
    return uuids;
  };
  std::optional<std::vector<std::string>> uuids = list();
  stop();
  return uuids;
}

/// How many GPUs this process sees, told by NVML and CUDA_VISIBLE_DEVICES. CUDA itself is not started, so that a
/// launcher or a test may ask and then fork: a child of a process that has started CUDA cannot use it. None where only
/// CUDA can say: NVML is missing, or the list is none that `count_listed` understands.
std::optional<int> count_without_cuda() {
  const std::optional<std::vector<std::string>> all = uuids_by_nvml();
  if (!all) return std::nullopt;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? static_cast<int>(all->size()) : cuda::count_listed(visible, *all);
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

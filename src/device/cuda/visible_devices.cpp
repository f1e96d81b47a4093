// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/visible_devices.hpp"

#include <cstdlib>
#include <cuda_runtime_api.h>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/nvml.hpp"
#include "device/cuda/visible_list.hpp"

namespace tandem {
namespace {

using cuda::Driver;

/// The number of GPUs that this process sees, from NVML and CUDA_VISIBLE_DEVICES, without initializing CUDA, so that a
/// launcher or a test may call it and then fork: a child of a process that has initialized CUDA cannot use it. Empty if
/// only CUDA can tell: NVML is missing, or `count_listed` does not understand the list.
std::optional<int> count_without_cuda() {
  const std::unique_ptr<const cuda::Nvml> nvml = cuda::Nvml::open();
  if (!nvml) return std::nullopt;
  const std::optional<std::vector<std::string>> all = nvml->uuids();
  if (!all) return std::nullopt;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? static_cast<int>(all->size()) : cuda::count_listed(visible, *all);
}

}  // namespace

int cuda_device_count() noexcept try {
  if (!Driver::why_not_loaded().empty() || Driver::is_forked()) return 0;
  if (!Driver::is_started()) {
    if (const std::optional<int> visible = count_without_cuda()) return *visible;
  }
  if (!Driver::why_not_started().empty()) return 0;
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  cuda::ignore(result);
  return result == cudaSuccess ? count : 0;
} catch (const std::exception&) {
  return 0;  // no memory
}

std::string why_no_cuda_device() {
  if (!Driver::why_not_loaded().empty()) return Driver::why_not_loaded();
  if (Driver::is_forked()) {
    return "this process was forked from one that had started CUDA; fork before that, or exec";
  }
  if (cuda_device_count() > 0) return {};
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string none =
      visible != nullptr ? format("no GPU is seen with CUDA_VISIBLE_DEVICES='{}'", visible) : "the driver sees no GPU";
  const std::string why = Driver::is_started() ? Driver::why_not_started() : std::string();
  return why.empty() ? none : format("{} ({})", none, why);
}

}  // namespace tandem

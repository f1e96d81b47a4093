// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/gpu_clock.hpp"

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "base/format.hpp"

#if defined(TANDEM_WITH_CUDA)
#include <string>

#include "device/cuda/nvml.hpp"
#include "device/cuda/properties.hpp"
#endif

namespace tandem {

#if defined(TANDEM_WITH_CUDA)
struct GpuClock::State {
  std::unique_ptr<const cuda::Nvml> nvml;
  std::string uuid;
};

GpuClock::GpuClock(int gpu) {
  const int count = device_count(DeviceType::cuda);
  if (gpu < 0 || gpu >= count) {
    throw InvalidArgument(format("the clock of cuda:{}; this process can use {} of them, numbered from 0", gpu, count));
  }
  state_ = std::make_unique<const State>(cuda::Nvml::open(), cuda::uuid_text(cuda::query_properties(gpu)));
}

std::optional<GpuClock::Reading> GpuClock::read() const {
  return state_->nvml ? state_->nvml->sm_clock(state_->uuid) : std::nullopt;
}
#else
struct GpuClock::State {};

GpuClock::GpuClock(int gpu) { throw Unsupported(format("the clock of cuda:{}: built without CUDA", gpu)); }

std::optional<GpuClock::Reading> GpuClock::read() const { return std::nullopt; }
#endif

GpuClock::~GpuClock() = default;

}  // namespace tandem

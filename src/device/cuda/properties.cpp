// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/properties.hpp"

#include <cstring>
#include <cuda_runtime_api.h>
#include <span>

#include "base/format.hpp"
#include "device/cuda/check.hpp"

namespace tandem::cuda {

Properties query_properties(int device) {
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, device), "cudaGetDeviceProperties");
  Properties p;
  p.name = found.name;
  static_assert(sizeof(found.uuid) == sizeof(p.uuid));
  std::memcpy(p.uuid.data(), &found.uuid, sizeof(p.uuid));
  p.multiprocessors = found.multiProcessorCount;
  p.major = found.major;
  p.minor = found.minor;
  p.memory_bytes = found.totalGlobalMem;
  int kilohertz = 0;
  int bits = 0;
  check(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, device), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device), "cudaDeviceGetAttribute");
  p.memory_bytes_per_second = 2e3 * kilohertz * bits / 8;  // double data rate
  p.max_pitch = found.memPitch;
  p.unified_addressing = found.unifiedAddressing != 0;
  check(cudaDriverGetVersion(&p.driver_version), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&p.runtime_version), "cudaRuntimeGetVersion");
  return p;
}

std::string uuid_text(const Properties& properties) {
  std::string text = "GPU";
  std::span<const std::byte> left(properties.uuid);
  for (const std::size_t group : {4U, 2U, 2U, 2U, 6U}) {
    text += '-';
    for (const std::byte each : left.first(group)) text += format("{:02x}", std::to_integer<unsigned>(each));
    left = left.subspan(group);
  }
  return text;
}

}  // namespace tandem::cuda

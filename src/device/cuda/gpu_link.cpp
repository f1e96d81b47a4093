// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gpu_link.hpp"

#include <cuda_runtime_api.h>
#include <memory>
#include <optional>

#include "base/format.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/nvml.hpp"
#include "device/cuda/properties.hpp"

namespace tandem::cuda {
namespace {

int peer_attribute(cudaDeviceP2PAttr which, int from, int to) {
  int value = 0;
  check(cudaDeviceGetP2PAttribute(&value, which, from, to), "cudaDeviceGetP2PAttribute");
  return value;
}

std::string uuid_of(int device) { return uuid_text(query_properties(device)); }

}  // namespace

std::string describe_gpu_link(int one, int other) {
  const std::unique_ptr<const Nvml> nvml = Nvml::open();
  const std::optional<Nvml::Pair> pair = nvml ? nvml->pair(uuid_of(one), uuid_of(other)) : std::nullopt;
  const std::string wires = pair ? pair->wires : "wires unknown, since NVML does not tell";
  // Peers write into each other's memory, so access is needed in both directions.
  if (peer_attribute(cudaDevP2PAttrAccessSupported, one, other) == 0 ||
      peer_attribute(cudaDevP2PAttrAccessSupported, other, one) == 0) {
    const std::string why = pair && !pair->why_no_peers.empty() ? pair->why_no_peers : "the driver does not say why";
    return format("{}, no peer access: {}; ranks on both cannot share memory", wires, why);
  }
  return format("{}, peer access {} atomics, performance rank {}", wires,
                peer_attribute(cudaDevP2PAttrNativeAtomicSupported, one, other) != 0 ? "with" : "without",
                peer_attribute(cudaDevP2PAttrPerformanceRank, one, other));
}

}  // namespace tandem::cuda

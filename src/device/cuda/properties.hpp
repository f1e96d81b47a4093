// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace tandem::cuda {

/// Properties of one device, and the versions of driver and runtime.
struct Properties {
  std::string name;
  std::array<std::byte, 16> uuid{};
  int multiprocessors = 0;
  int major = 0;  ///< of the compute capability
  int minor = 0;
  std::size_t memory_bytes = 0;
  double memory_bytes_per_second = 0;  ///< theoretical peak, from clock and bus width
  std::size_t max_pitch = 0;           ///< maximum pitch of a strided copy, in bytes
  bool unified_addressing = false;
  int driver_version = 0;  ///< 12080 is 12.8
  int runtime_version = 0;
};

/// Throws DeviceError.
[[nodiscard]] Properties query_properties(int device);

/// The UUID as NVML writes it: "GPU-" and the bytes in hex, in groups of 4, 2, 2, 2 and 6.
[[nodiscard]] std::string uuid_text(const Properties& properties);

}  // namespace tandem::cuda

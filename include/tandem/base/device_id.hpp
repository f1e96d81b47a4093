// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tandem/base/export.hpp"

namespace tandem {

/// Where memory lives and compute runs.
enum class DeviceType : std::uint8_t { host, cuda };

/// One device: its type, and its index among the devices that this process sees (the host has only index 0).
struct DeviceId {
  DeviceType type = DeviceType::host;
  int index = 0;

  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

[[nodiscard]] TANDEM_API std::string_view name(DeviceType type) noexcept;

/// "host", "cuda:1"
[[nodiscard]] TANDEM_API std::string to_string(DeviceId id);

}  // namespace tandem

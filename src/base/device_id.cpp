// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/device_id.hpp"

#include "base/format.hpp"

namespace tandem {

std::string_view name(DeviceType type) noexcept { return type == DeviceType::host ? "host" : "cuda"; }

std::string to_string(DeviceId id) {
  if (id == DeviceId{}) return std::string(name(id.type));
  return format("{}:{}", name(id.type), id.index);
}

}  // namespace tandem

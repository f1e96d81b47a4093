// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tandem/device/device.hpp"

#include "base/format.hpp"

namespace tandem {

// What does a plan's work on a device; `sms` is the plan's limit on SMs, if any.

/// Whether copy engines do the copies, rather than cores.
[[nodiscard]] inline bool engines_copy(const Device& device) noexcept { return device.id().type == DeviceType::cuda; }

/// Whether copies are left to copy engines even where a kernel is faster: the SMs are for what needs a kernel.
[[nodiscard]] inline bool engines_alone(const std::optional<int>& sms) noexcept { return sms.has_value(); }

/// Submits several copies as a batch. A single copy within a GPU is faster by a kernel; if copies are left to the
/// engines, it is a batch of one, which they take wherever they can (see Device::copy_batch).
inline void enqueue(Device& device, StreamRef stream, std::span<const Copy> copies, const std::optional<int>& sms) {
  if (copies.size() == 1 && !engines_alone(sms)) {
    device.copy(stream, copies.front());
  } else {
    device.copy_batch(stream, copies);
  }
}

/// What does the copies, and what takes SMs meanwhile, for `describe`.
[[nodiscard]] inline std::string_view copied_by(const Device& device, const std::optional<int>& sms) noexcept {
  if (!engines_copy(device)) return "the cores";
  if (engines_alone(sms)) {
    return "copy engines, in batches (one by one, as in a pipeline and captured in a graph: by kernels within a GPU), "
           "and one block where a stream signals or waits";
  }
  return "copy engines, in batches (captured in a graph: one by one; a copy within a GPU that is alone or captured: "
         "by a kernel), and one block where a stream signals or waits";
}

/// What sums, for `describe`.
[[nodiscard]] inline std::string summed_by(const Device& device, const std::optional<int>& sms) {
  if (device.id().type != DeviceType::cuda) return "the cores";
  return sms ? format("kernels on at most {} SMs", *sms) : "kernels";
}

}  // namespace tandem

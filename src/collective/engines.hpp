// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tandem/device/device.hpp"

#include "base/format.hpp"

namespace tandem {

// What works for a plan with a budget of `sms` multiprocessors, if any, on a device.

/// Whether engines copy, and not the cores.
[[nodiscard]] inline bool engines_copy(const Device& device) noexcept { return device.id().type == DeviceType::cuda; }

/// Whether copies are left to copy engines also where a kernel would be faster: a budget is for what must be a kernel.
[[nodiscard]] inline bool engines_alone(const std::optional<int>& sms) noexcept { return sms.has_value(); }

/// Several go in a batch. A lone one within a GPU is a kernel's, which is faster, but where engines work alone: they
/// take a batch of one for sure.
inline void enqueue(Device& device, StreamRef stream, std::span<const Copy> copies, const std::optional<int>& sms) {
  if (copies.size() == 1 && !engines_alone(sms)) {
    device.copy(stream, copies.front());
  } else {
    device.copy_batch(stream, copies);
  }
}

/// What moves its copies and what takes SMs beside them, for `describe`.
[[nodiscard]] inline std::string_view copied_by(const Device& device, const std::optional<int>& sms) noexcept {
  if (!engines_copy(device)) return "the cores";
  if (engines_alone(sms)) {
    return "copy engines, in batches (one by one, as in a pipeline and captured in a graph: by kernels within a GPU), "
           "and one block where a stream signals or waits";
  }
  return "copy engines, in batches (captured in a graph: one by one; a copy within a GPU that is alone or captured: "
         "by a kernel), and one block where a stream signals or waits";
}

/// What adds up.
[[nodiscard]] inline std::string summed_by(const Device& device, const std::optional<int>& sms) {
  if (device.id().type != DeviceType::cuda) return "the cores";
  return sms ? format("kernels on at most {} SMs", *sms) : "kernels";
}

}  // namespace tandem

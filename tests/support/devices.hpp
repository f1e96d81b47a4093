// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <string>

#include "tandem/base/device_id.hpp"
#include "tandem/team/world.hpp"

#include "support/ranks.hpp"

namespace tandem::testing {

/// Why ranks of a test cannot use a device of this type; empty if they can. Asks in a child process, so that this
/// process can still fork ranks that use a GPU.
[[nodiscard]] std::string why_no_ranks_on(DeviceType type);

/// The same for ranks that compute attention.
[[nodiscard]] std::string why_no_attention_on(DeviceType type);

/// A suite that runs once on each type of device; skipped, with the reason, if there is none.
class OnEachDevice : public ::testing::TestWithParam<DeviceType> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_ranks_on(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
  /// run_ranks() on this type of device.
  static void on(int ranks, const std::function<void(World&)>& body, RankOptions options = {}) {
    options.device = GetParam();
    run_ranks(ranks, body, options);
  }
};

/// `rows`, for a tensor whose size decides which kernel, if any, handles it whole. A device whose kernels do not meet
/// has no such limits: there a tenth of the rows takes the same path in less time.
[[nodiscard]] inline std::int64_t beyond_kernels(const World& world, std::int64_t rows) {
  return world.device().meets() ? rows : rows / 10 + 1;
}

/// Names the parameter of an OnEachDevice suite.
inline const auto device_name = [](const ::testing::TestParamInfo<DeviceType>& info) {
  return std::string(name(info.param));
};

}  // namespace tandem::testing

#define TANDEM_ON_EACH_DEVICE(suite)                                                                                 \
  INSTANTIATE_TEST_SUITE_P(Device, suite, ::testing::Values(::tandem::DeviceType::host, ::tandem::DeviceType::cuda), \
                           ::tandem::testing::device_name)

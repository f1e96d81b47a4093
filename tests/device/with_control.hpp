// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "device/on_device.hpp"
#include "device/registered.hpp"

namespace tandem::testing {

/// A suite with a WaitControl whose waits have a deadline of 20 s.
class WithControl : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    page_.emplace(device_);
    control_ = page_->data();
    control_->timeout_ns = 20'000'000'000;
  }

  WaitControl* control_ = nullptr;

 private:
  std::optional<Registered<WaitControl>> page_;
};

}  // namespace tandem::testing

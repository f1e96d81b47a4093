// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tandem/device/signal.hpp"

namespace tandem {

/// What `Device::signal` and `Device::wait` do on the host when their turn has come; the words may be shared by
/// processes.
void put_signals(std::span<const SignalPut> puts) noexcept;
void wait_signals(std::span<const SignalWait> waits, WaitControl& control) noexcept;

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tandem/device/mail.hpp"
#include "tandem/device/signal.hpp"

namespace tandem {

/// What `Device::signal`, `wait_and_count` and `wait` do on the host when their turn has come; the words may be shared
/// by processes.
void put_signals(std::span<const SignalPut> puts) noexcept;
void count_signals(std::span<const SignalPut> puts) noexcept;
void wait_signals(std::span<const SignalWait> waits, WaitControl& control) noexcept;
/// The signals of letters that are written.
void signal_letters(std::span<const Letter> letters) noexcept;
/// Those of the peers' letters.
void wait_letters(std::span<const Letter> letters, WaitControl& control) noexcept;

/// Whether the team's waits are to end, for any reason.
[[nodiscard]] bool aborted(WaitControl& control) noexcept;
/// Whether `peer`, a rank of the world, sends nothing more. What it has sent is there to see after this.
[[nodiscard]] bool departed(WaitControl& control, int peer) noexcept;
/// Leaves `failure` behind, unless another one was first, and ends the team's waits; returns once that can be seen.
void fail(WaitControl& control, const WaitFailure& failure) noexcept;
/// In place of a signal that was due after work that threw.
void fail_after_throw(WaitControl& control) noexcept;

}  // namespace tandem

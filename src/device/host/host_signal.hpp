// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tandem/device/mail.hpp"
#include "tandem/device/signal.hpp"

namespace tandem {

class HostWorkers;

/// What the tasks that `Device::signal`, `wait_and_count` and `wait` queue on the host do. The words may be in memory
/// that processes share.
void put_signals(std::span<const SignalPut> puts) noexcept;
void count_signals(std::span<const SignalPut> puts) noexcept;
/// Throws DeviceError if a wait misses its deadline while some stream of `workers` has no thread to run on: the
/// system's doing, not the peer's.
void wait_signals(std::span<const SignalWait> waits, WaitControl& control, HostWorkers& workers);
/// Puts the signals of letters that have been written.
void signal_letters(std::span<const Letter> letters) noexcept;
/// Waits for the signals of the peers' letters; throws like `wait_signals`.
void wait_letters(std::span<const Letter> letters, WaitControl& control, HostWorkers& workers);

/// Whether the team has been aborted, so that its waits must end.
[[nodiscard]] bool aborted(WaitControl& control) noexcept;
/// How long a wait may take, in ns: read anew at each look, since it may be set at any time.
[[nodiscard]] std::uint64_t timeout_of(WaitControl& control) noexcept;
/// Whether `peer`, a world rank, has departed and sends nothing more. If so, everything that it sent is now visible.
[[nodiscard]] bool departed(WaitControl& control, int peer) noexcept;
/// Stores `failure`, unless another one was first, and aborts the team's waits; returns once the abort is visible.
void fail(WaitControl& control, const WaitFailure& failure) noexcept;
/// `fail`, in place of putting a signal after work of its stream that threw.
void fail_after_throw(WaitControl& control) noexcept;

}  // namespace tandem

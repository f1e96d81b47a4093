// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tandem/device/copy.hpp"
#include "tandem/device/mailed_exchange.hpp"
#include "tandem/device/meeting.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/device/signal.hpp"

#include "device/cuda/kernels/copy_in_meeting.hpp"
#include "device/cuda/kernels/mailed_exchange.hpp"
#include "device/cuda/kernels/reduce.hpp"
#include "device/cuda/kernels/signal.hpp"

namespace tandem::cuda {

/// Convert a device operation's arguments to a kernel's parameters, by value. Throw InvalidArgument for more operands
/// than the parameters hold, Unsupported for a dtype without a kernel.
[[nodiscard]] SignalArguments arguments_of(std::span<const SignalPut> puts);
[[nodiscard]] WaitArguments arguments_of(std::span<const SignalWait> waits, WaitControl* control);
[[nodiscard]] ReduceArguments arguments_of(const Reduction& reduction);
[[nodiscard]] ReduceInMeetingArguments arguments_of(const Reduction& reduction, const MeetingBlocks& meeting,
                                                    WaitControl* control);
[[nodiscard]] CopyInMeetingArguments arguments_of(std::span<const Copy> copies, const MeetingBlocks& meeting,
                                                  WaitControl* control);
[[nodiscard]] SpreadInMeetingArguments arguments_of(const Spread& spread, const MeetingBlocks& meeting,
                                                    WaitControl* control);
[[nodiscard]] MailedExchangeArguments arguments_of(const MailedExchange& exchange, WaitControl* control);
[[nodiscard]] MailedPartsArguments parts_arguments_of(const MailedExchange& exchange, WaitControl* control);

}  // namespace tandem::cuda

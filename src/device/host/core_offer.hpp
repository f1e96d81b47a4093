// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tandem {

/// What a thread that waits learns about its core by offering it to others. Where nobody takes it, every offer costs
/// most of a microsecond in which what is awaited comes unseen; the peer then waits in turn, offers its own core, and
/// is late: two ranks can go on like that for ever. Where somebody does take it, that may be the very peer that is
/// waited for, and each spin before the offer is lost. How many ranks and cores there are does not tell: a rank may be
/// bound to one of many cores, or have been put where another rank computes.

/// Lets others run on this core, if they want to.
void offer_core() noexcept;

/// Whether somebody took this thread's core when it was offered lately.
[[nodiscard]] bool core_is_wanted() noexcept;

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tandem {

/// A waiting thread offers its core (sched_yield), and so learns whether another thread wants it. If none does, each
/// offer costs most of a microsecond in which a signal's arrival goes unnoticed; the peer then waits in turn, offers
/// its own core and is late: two ranks can delay each other like that for ever. If one does, it may be the very peer
/// that is waited for, and spinning before the offer is time lost. The numbers of ranks and cores do not tell which: a
/// rank may be bound to one of many cores, or may have been placed where another rank computes.

/// Lets other threads that are ready run on this core.
void offer_core() noexcept;

/// Whether another thread took this thread's core when it was offered recently; true before the first offer.
[[nodiscard]] bool core_is_wanted() noexcept;

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "device/host/core_offer.hpp"

#include <sched.h>
#include <sys/resource.h>

namespace tandem {

namespace {

// While the core is wanted, getrusage is called only at every 32nd offer, which adds a thirtieth to their time.
constexpr int offers_for_a_question = 32;

thread_local bool wanted = true;  // until the first offer shows otherwise
thread_local long times_taken = 0;
thread_local int unasked = offers_for_a_question;

}  // namespace

void offer_core() noexcept {
  ::sched_yield();
  if (wanted && ++unasked < offers_for_a_question) return;
  unasked = 0;
  // The offer's duration does not tell: on one machine an offer that nobody takes lasts 0.8 µs, on another machine one
  // that somebody takes lasts 1.2.
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  wanted = used.ru_nivcsw != times_taken;
  times_taken = used.ru_nivcsw;
}

bool core_is_wanted() noexcept { return wanted; }

}  // namespace tandem

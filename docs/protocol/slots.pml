// SPDX-License-Identifier: Apache-2.0
// Payloads in slots, with credits: the stream that writes them, and the stream that reads them.

#if MUTATION == SLOT_WITHOUT_CREDIT
#define NEEDS_CREDIT (i % SLOTS == 0)
#else
#define NEEDS_CREDIT true
#endif

// The stream that writes this rank's payloads, for its peers in rotated order.
#if PULL
proctype Writer(byte me; byte plan) {
  byte i = 1;
  byte k = 1;
  {
    do
    :: i <= ITERATIONS ->
       do
       :: atomic { k <= READERS(me) && SIGNALED(MY_CREDIT) -> take_signal(MY_CREDIT) };
#if MUTATION != CREDIT_NOT_RESET
          d_step { reset_signal(MY_CREDIT) };
#endif
          k++
       :: atomic { k > READERS(me) -> k = 1; break }
       od;
       SLOT_TO_WRITE.first = i;
       SLOT_TO_WRITE.last = i;
       do
       :: d_step { k <= READERS(me) -> put_signal(THEIR_ARRIVAL); k++ }
       :: atomic { k > READERS(me) -> k = 1; i++; break }
       od
    :: i > ITERATIONS -> break
    od
  } UNLESS_DEAD
}
#else
proctype Writer(byte me; byte plan) {
  byte i = 1;
  byte k = 1;
  {
    do
    :: atomic { i <= ITERATIONS && NEEDS_CREDIT && SIGNALED(MY_CREDIT) -> take_signal(MY_CREDIT) };
#if MUTATION != CREDIT_NOT_RESET
       d_step { reset_signal(MY_CREDIT) };
#endif
       goto push
    :: i <= ITERATIONS && !NEEDS_CREDIT ->
push:
#if MUTATION == SIGNAL_BEFORE_DATA
       skip;
       d_step { put_signal(THEIR_ARRIVAL) };
#endif
       SLOT_TO_WRITE.first = i;
#if PARTS == 2
       d_step { put_signal(THEIR_ARRIVAL) };
#endif
       SLOT_TO_WRITE.last = i;
#if MUTATION == SIGNAL_BEFORE_DATA
       d_step { next(READERS(me)) }
#else
       d_step { put_signal(THEIR_ARRIVAL); next(READERS(me)) }
#endif
    :: i > ITERATIONS -> break
    od
  } UNLESS_DEAD
}
#endif

// The stream that reads what its peers have written, in the order in which their data arrive.
proctype Reader(byte me; byte plan) {
  byte i = 1;
  byte k = 1;
  bool right;
  {
    do
    :: atomic { i <= ITERATIONS && SIGNALED(MY_ARRIVAL) -> take_signal(MY_ARRIVAL) };
#if MUTATION == CREDIT_BEFORE_READ
       d_step { reset_signal(MY_ARRIVAL) };
       d_step { put_signal(THEIR_CREDIT) };
#endif
       right = (SLOT_TO_READ.first == i);
#if PARTS == 2 && MUTATION != PART_NOT_AWAITED
       atomic { SIGNALED(MY_ARRIVAL) -> take_signal(MY_ARRIVAL) };
#endif
       d_step {
         right = right && SLOT_TO_READ.last == i;
         // The code checks results later, in Team::synchronize. Here, at once, is when the fewest failures are known.
         assert(right || !COUNTS);
         right = false
       };
#if MUTATION == CREDIT_BEFORE_READ
       d_step { next(WRITERS(me)) }
#elif MUTATION == RESET_AFTER_CREDIT
       d_step { put_signal(THEIR_CREDIT) };
       d_step { reset_signal(MY_ARRIVAL); next(WRITERS(me)) }
#else
       d_step { reset_signal(MY_ARRIVAL) };
       d_step { put_signal(THEIR_CREDIT); next(WRITERS(me)) }
#endif
    :: i > ITERATIONS -> break
    od
  } UNLESS_DEAD
}

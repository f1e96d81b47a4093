// SPDX-License-Identifier: Apache-2.0
// A loan: a rank's caller has written the memory that is lent, and will write it again when the run has ended.
Word drained[WORDS];  // from a reader: I have read what you lent me
byte lent[RANKS];     // which of its slots a rank lends; in the code, the location of the loan

#define LENDS(rank) (!ROOTED || i % 2 == (rank))
#define MY_DRAINED drained[WORD(me, FROM, plan, 0)]
#define THEIR_READY arrival[WORD(TO, me, plan, 0)]
#define MY_READY arrival[WORD(me, FROM, plan, 0)]
#define THEIR_DRAINED drained[WORD(FROM, me, plan, 0)]
#define LENT_TO_ME buffer[SLOT(me, FROM, plan, lent[FROM])]

// The memory of a rank that is dead cannot be read: a rank that tries waits until it hears of the failure.
#if FAULTS
#define READABLE (!dead[FROM] || RELEASED)
#else
#define READABLE true
#endif

proctype Lender(byte me; byte plan) {
  byte i = 1;
  byte k = 1;
  bool right;
  {
    do
    :: i <= ITERATIONS ->
       if
       :: LENDS(me) ->
          SLOT_TO_WRITE.first = i;
          SLOT_TO_WRITE.last = i;
#if MUTATION == SIGNAL_BEFORE_DATA
          signal_all(THEIR_READY);
          lent[me] = i % SLOTS
#else
          lent[me] = i % SLOTS;
          signal_all(THEIR_READY)
#endif
       :: else
       fi;
       do
       :: k < RANKS && LENDS(FROM) ->
#if MUTATION != NOT_READY
          atomic { SIGNALED(MY_READY) -> take_signal(MY_READY) };
#endif
#if MUTATION == CREDIT_BEFORE_READ
          d_step { put_signal(THEIR_DRAINED) };
#endif
          atomic { READABLE -> right = (LENT_TO_ME.first == i) };
          d_step {
            READABLE ->
            right = right && LENT_TO_ME.last == i;
            assert(right || !COUNTS);
            right = false
          };
#if MUTATION == NOT_READY
          atomic { SIGNALED(MY_READY) -> take_signal(MY_READY) };
#endif
#if MUTATION != CREDIT_BEFORE_READ
          d_step { put_signal(THEIR_DRAINED) };
#endif
          k++
       :: k < RANKS && !LENDS(FROM) -> k++
       :: atomic { k == RANKS -> k = 1; break }
       od;
#if MUTATION != NOT_DRAINED
       if
       :: LENDS(me) -> wait_all(MY_DRAINED)
       :: else
       fi;
#endif
       i++
    :: i > ITERATIONS -> break
    od
  } UNLESS_DEAD
}

#if SUMMED
// An all_reduce in place. Rank r reads chunk r of its peers' inputs, and lends its sum. That signal also says that r has
// read the inputs. So each peer may put this sum where chunk r of its own input was, although it still lends that memory.
Word reduced[WORDS];  // from a rank: I have summed my chunk, and lend it
byte chunks[RANKS * RANKS];

#define INPUT (2 * i)
#define SUM (2 * i + 1)
#define CHUNK(owner, chunk) chunks[(owner) * RANKS + (chunk)]
#define THEIR_REDUCED reduced[WORD(TO, me, plan, 0)]
#define MY_REDUCED reduced[WORD(me, FROM, plan, 0)]

inline read_inputs() {
  do
  :: d_step { k < RANKS && READABLE -> assert(CHUNK(FROM, me) == INPUT || !COUNTS); k++ }
  :: atomic { k == RANKS -> k = 1; break }
  od
}

proctype Summer(byte me; byte plan) {
  byte i = 1;
  byte k = 1;
  {
    do
    :: i <= ITERATIONS ->
       do
       :: d_step { k <= RANKS -> CHUNK(me, TO) = INPUT; k++ }
       :: atomic { k > RANKS -> k = 1; break }
       od;
       signal_all(THEIR_READY);
       wait_all(MY_READY);
#if MUTATION != READ_LATE
       read_inputs();
#endif
       CHUNK(me, me) = SUM;
       signal_all(THEIR_REDUCED);
#if MUTATION == READ_LATE
       read_inputs();
#endif
       do
       :: atomic { k < RANKS && SIGNALED(MY_REDUCED) -> take_signal(MY_REDUCED) };
          d_step { READABLE -> assert(CHUNK(FROM, FROM) == SUM || !COUNTS) };
          CHUNK(me, FROM) = SUM;
          d_step { put_signal(THEIR_DRAINED); k++ }
       :: atomic { k == RANKS -> k = 1; break }
       od;
#if MUTATION != NOT_DRAINED
       wait_all(MY_DRAINED);
#endif
       i++
    :: i > ITERATIONS -> break
    od
  } UNLESS_DEAD
}
#endif

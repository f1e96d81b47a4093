// SPDX-License-Identifier: Apache-2.0
// An exchange: a rank's signals of iteration i + 1 come after all of its reads of iteration i.
#if MUTATION == READ_LATE
#define PIECE (i - 1)
#else
#define PIECE i
#endif
#define PIECE_TO_READ buffer[SLOT(me, FROM, plan, PIECE % SLOTS)]

#if OPENED
Word opened[WORDS];   // from every rank: I have begun this iteration
#endif
#define THEIR_OPENED opened[WORD(TO, me, plan, 0)]
#define MY_OPENED opened[WORD(me, FROM, plan, 0)]

proctype Exchanger(byte me; byte plan) {
  byte i = 1;
  byte k = 1;
  bool right;
  {
    do
    :: i <= ITERATIONS ->
#if OPENED
       signal_all(THEIR_OPENED);
       wait_all(MY_OPENED);
#endif
#if MUTATION == SIGNAL_BEFORE_DATA
       signal_all(THEIR_ARRIVAL);
#endif
#if PULL
       SLOT_TO_WRITE.first = i;
       SLOT_TO_WRITE.last = i;
#else
       do
       :: k < RANKS ->
          SLOT_TO_WRITE.first = i;
          SLOT_TO_WRITE.last = i;
          k++
       :: atomic { k == RANKS -> k = 1; break }
       od;
#endif
#if MUTATION != SIGNAL_BEFORE_DATA
       signal_all(THEIR_ARRIVAL);
#endif
       wait_all(MY_ARRIVAL);
       do
       :: k < RANKS && PIECE > 0 ->
          right = (PIECE_TO_READ.first == PIECE);
          d_step {
            right = right && PIECE_TO_READ.last == PIECE;
            assert(right || !COUNTS);
            right = false;
            k++
          }
       :: atomic { k == RANKS || PIECE == 0 -> k = 1; i++; break }
       od
    :: i > ITERATIONS -> break
    od
  } UNLESS_DEAD
}

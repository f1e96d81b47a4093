// SPDX-License-Identifier: Apache-2.0
// Returned gradients (src/attention/returned_gradients.hpp): in each run, a rank computes something for each of its owners
// in turn, which a stream beside sends to one of PLACES places at the owner. The places pass from one sender to the next,
// and behind the last one to the next run's first: with UPWARD, ranks send to those below them only.

// In its step d, a rank computes for the rank that is d behind it in cyclic order.
#define OWNER(rank, d) (((rank) + (d)) % RANKS)
#define SENDER(owner, d) (((owner) + RANKS - (d)) % RANKS)
#if UPWARD
#define SENDS(from, owner) ((from) > (owner))
#define RETURNS_TO(owner) (RANKS - 1 - (owner))
#define TURN(owner, from) (RANKS - 1 - (from))
#define SENDER_OF_TURN(owner, turn) (RANKS - 1 - (turn))
#else
#define SENDS(from, owner) ((from) != (owner))
#define RETURNS_TO(owner) (RANKS - 1)
#define TURN(owner, from) (((owner) + RANKS - (from)) % RANKS - 1)
#define SENDER_OF_TURN(owner, turn) SENDER(owner, (turn) + 1)
#endif

#define PLACE(owner, turn) place[(owner) * PLACES + (turn) % PLACES]
#define RETURN_ARRIVAL(owner, from) arrival[WORD(owner, from, 0, 0)]
#define RETURN_CREDIT(from, owner) credit[WORD(from, owner, 0, 0)]

#if MUTATION == NO_LAG
#define RECEIVED_BEFORE(d) (d)
#else
#define RECEIVED_BEFORE(d) ((d) - 2)
#endif
#if MUTATION == SLOT_WITHOUT_CREDIT
#define RETURN_NEEDS_CREDIT (TURN(OWNER(me, d), me) < PLACES)
#else
#define RETURN_NEEDS_CREDIT true
#endif

Slot place[RANKS * PLACES];
byte handed[RANKS];  // how many the stream beside may send
byte sent[RANKS];

// Whose return is granted its place when return `turn` has been read: two places on or, behind the last, the next run's
// first one in this place.
inline grant_next(turn) {
  if
  :: turn + PLACES < RETURNS_TO(me) -> put_signal(RETURN_CREDIT(SENDER_OF_TURN(me, turn + PLACES), me))
  :: else -> put_signal(RETURN_CREDIT(SENDER_OF_TURN(me, turn % PLACES), me))
  fi
}

// The rank's own stream: it adds what has been returned from up to `most` ranks away.
inline receive(most) {
  do
  :: e <= most && e < RANKS && !SENDS(SENDER(me, e), me) -> e++
  :: e <= most && e < RANKS && SENDS(SENDER(me, e), me) ->
     atomic { SIGNALED(RETURN_ARRIVAL(me, SENDER(me, e))) -> take_signal(RETURN_ARRIVAL(me, SENDER(me, e))) };
#if MUTATION == CREDIT_BEFORE_READ
     d_step { grant_next(TURN(me, SENDER(me, e))) };
#endif
     right = (PLACE(me, TURN(me, SENDER(me, e))).first == i * RANKS + e);
     d_step {
       right = right && PLACE(me, TURN(me, SENDER(me, e))).last == i * RANKS + e;
       assert(right);
       right = false;
#if MUTATION != CREDIT_BEFORE_READ
       grant_next(TURN(me, SENDER(me, e)));
#endif
       e++
     }
  :: else -> break
  od
}

proctype Computer(byte me) {
  byte plan = 0;
  byte i = 1;
  byte d = 1;
  byte e = 1;  // the distance of the next return
  bool right;
  do
  :: i <= ITERATIONS ->
     do
     :: d < RANKS && SENDS(me, OWNER(me, d)) ->
        receive(RECEIVED_BEFORE(d));
        if
        :: atomic { RETURN_NEEDS_CREDIT && SIGNALED(RETURN_CREDIT(me, OWNER(me, d))) ->
             take_signal(RETURN_CREDIT(me, OWNER(me, d))); handed[me]++ }
        :: atomic { !RETURN_NEEDS_CREDIT -> handed[me]++ }
        fi;
        d++
     :: d < RANKS && !SENDS(me, OWNER(me, d)) -> d++
     :: d == RANKS -> break
     od;
     receive(RANKS);
     atomic { sent[me] == handed[me] -> d = 1; e = 1; i++ }
  :: i > ITERATIONS -> break
  od
}

proctype Returner(byte me) {
  byte plan = 0;
  byte i = 1;
  byte d = 1;
  do
  :: i <= ITERATIONS && d < RANKS && SENDS(me, OWNER(me, d)) ->
     handed[me] > sent[me];
#if MUTATION == SIGNAL_BEFORE_DATA
     d_step { put_signal(RETURN_ARRIVAL(OWNER(me, d), me)) };
#endif
     PLACE(OWNER(me, d), TURN(OWNER(me, d), me)).first = i * RANKS + d;
     PLACE(OWNER(me, d), TURN(OWNER(me, d), me)).last = i * RANKS + d;
#if MUTATION == SIGNAL_BEFORE_DATA
     d_step { sent[me]++; d++ }
#else
     d_step { put_signal(RETURN_ARRIVAL(OWNER(me, d), me)); sent[me]++; d++ }
#endif
  :: i <= ITERATIONS && d < RANKS && !SENDS(me, OWNER(me, d)) -> d++
  :: i <= ITERATIONS && d == RANKS -> d = 1; i++
  :: i > ITERATIONS -> break
  od
}

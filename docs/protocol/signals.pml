// SPDX-License-Identifier: Apache-2.0
//
// Signals and credits: the protocol by which ranks write into each other's buffers. README.md in this folder describes
// it in words. scripts/check_model.sh checks it, and checks that each mutation below is found. This file has the signals
// and what may fail; their users are in slots.pml, exchange.pml, loan.pml, meeting.pml and returns.pml. The model is of memory/slots,
// which uses memory/signal_pad, which uses device/signal:
//
//   - Payload:  each rank writes one payload for each peer in each iteration, as an all_gather does, into one of two
//               slots: the peer's, or (PULL) its own, which all peers read. Writing and reading are different streams,
//               hence different processes here.
//   - Order:    a signal follows its data.
//   - Credit:   no put without a credit; the owner of a slot grants it after the slot's last reader. Or (EXCHANGE) each
//               rank has one stream, in which it writes, signals all peers, waits for all of them, and reads. No credit
//               is granted then: a rank that writes a slot again has had a signal from everybody that came after the
//               last read.
//   - Loan:     (LOAN) a rank signals that its own memory may be read where it is, and has it back when every reader
//               has signaled that it has read. Or (MEETING) a rank meets its peers before it works on their memory,
//               and again afterwards, each block of a kernel by itself: the first meeting says `ready`, the second
//               `drained`.
//   - Counters: plans use counters that only grow; or (CAPTURED) 0/1 words, as copy engines in a graph would. A rank
//               that has waited for such a word resets it before it does what lets the other side write it again.
//   - Failure:  a rank dies, or gives up (an abort, a wait at its deadline or for a rank that has left), at any point.
//               Every wait of a failed rank ends at once, and its streams go on, over garbage. What was read counts
//               only if no member has failed.
//
// An execution is sequentially consistent here: the model is of the protocol. That data becomes visible before its signal
// follows from release and acquire at system scope; mutation 1 is what happens without these.
//
// Every loop is bounded and every step goes forward, so each run is finite. A run that cannot go on before all streams
// have ended is what spin calls an invalid end state. Together that is progress, wherever any rank is delayed: spin
// takes every interleaving.

#ifndef RANKS
#define RANKS 2       // 2 or 3
#endif
#ifndef ITERATIONS
#define ITERATIONS 3  // with two slots: the first use of both, and the second of one
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef PLANS
#define PLANS 1       // 2: two plans run concurrently, each on streams, words and slots of its own
#endif
#ifndef CAPTURED
#define CAPTURED 0    // bit p: plan p is captured
#endif
#ifndef FAULTS
#define FAULTS 0      // 1: one rank dies or gives up, at any point
#endif
#ifndef UPWARD
#define UPWARD 0      // 1: a rank writes only for the ranks above it, as a broadcast does: fewer states
#endif
#ifndef PARTS
#define PARTS 1       // 2: each half of a payload has an arrival signal, counted on the same word (eager pushes)
#endif
#ifndef PULL
#define PULL 0        // 1: a rank writes its own slot, once for all peers, and they read it there
#endif
#ifndef EXCHANGE
#define EXCHANGE 0    // 1: signals are the credits (eager): ranks write their own slot (PULL), or a mailbox at each peer
#endif
#ifndef OPENED
#define OPENED 0      // 1: an exchange begins with an extra round of signals, as it must where slots do not alternate
#endif
#ifndef LOAN
#define LOAN 0        // 1: a rank lends its peers its own memory, which is its caller's again after each run (PULL)
#endif
#ifndef ROOTED
#define ROOTED 0      // 1: only one rank lends, 0 and 1 alternately, as in broadcasts; rank 2 hears only from these
#endif
#ifndef SUMMED
#define SUMMED 0      // 1: a rank lends an all_reduce's input, and then its sums, which replace the input
#endif
#ifndef MEETING
#define MEETING 0     // 1: blocks of kernels meet the peer's blocks, and read (PULL) or write its memory (two ranks)
#endif
#ifndef RETURNS
#define RETURNS 0     // 1: ranks return gradients to each other, of each of 4 ranks, or (UPWARD) those below
#endif
#ifndef PLACES
#define PLACES 2      // of RETURNS, at each rank
#endif
#ifndef MUTATION
#define MUTATION 0
#endif

// The mutations. Each breaks one rule; scripts/check_model.sh knows which failure spin must find.
// The comments say what the mutated model does wrong.
#define SIGNAL_BEFORE_DATA 1   // the signal overtakes its data, as it may inside one batch of copies (pushes)
#define CREDIT_BEFORE_READ 2   // a slot is granted before its last reader has read
#define SLOT_WITHOUT_CREDIT 3  // one of the slots is written without taking its credit (pushes)
#define SHARED_WORD 4          // two plans share their words
#define RESET_AFTER_CREDIT 5   // a 0/1 word is reset after the credit was granted
#define CREDIT_NOT_RESET 6     // a 0/1 credit is taken, but not reset
#define DEAF_WAIT 7            // a wait does not watch for failure
#define LONELY_CHECK 8         // a rank counts its results unless it has itself heard of a failure
#define NO_CHECK 9             // a rank counts its results without looking at any control word
#define PART_NOT_AWAITED 10    // a payload comes in two parts, and the second is read after the first one's arrival signal
#define READ_LATE 11           // exchanges: a payload is read only after the next one was signaled
#define NOT_DRAINED 12         // a lender does not wait until all have read; of a meeting, one block skips the second wait
#define NOT_READY 13           // a loan is read before it was signaled; a block works before it has met its peers
#define NO_LAG 14              // returns are awaited before the step of their distance, not two steps later

// A word of a signal pad. It is stored at the rank that waits on it, and one peer writes it.
typedef Word {
  byte value;  // released by the writer
  byte put;    // the writer's own count
  byte taken;  // the waiter's own count
};

#if MUTATION == SHARED_WORD
#define WORD(owner, writer, plan, slot) (((owner) * RANKS + (writer)) * SLOTS + (slot))
#else
#define WORD(owner, writer, plan, slot) ((((plan) * RANKS + (owner)) * RANKS + (writer)) * SLOTS + (slot))
#endif
#define WORDS (PLANS * RANKS * RANKS * SLOTS)

Word arrival[WORDS];  // the writer: your slot is filled
Word credit[WORDS];   // the owner: you may fill my slot

// A slot's payload has two halves, written and read one after the other. So a read in the middle of a write shows, and
// so does a write between the first reader and the last. Iteration i writes the value i.
typedef Slot {
  byte first;
  byte last;
};
#if PULL
#define SLOT(reader, writer, plan, slot) (((plan) * RANKS + (writer)) * SLOTS + (slot))
#else
#define SLOT(reader, writer, plan, slot) ((((plan) * RANKS + (reader)) * RANKS + (writer)) * SLOTS + (slot))
#endif
Slot buffer[PLANS * RANKS * RANKS * SLOTS];

bool dead[RANKS];    // the rank's process is gone: nothing of it runs any more
bool failed[RANKS];  // the rank's control word: its waits end, its results do not count

#if RANKS == 2
#define SOMEBODY_FAILED (failed[0] || failed[1])
#define SOMEBODY_DEAD (dead[0] || dead[1])
#define OUT(r) (failed[r] || dead[r])
#define ALL_FAILED (OUT(0) && OUT(1))
#else
#define SOMEBODY_FAILED (failed[0] || failed[1] || failed[2])
#define SOMEBODY_DEAD (dead[0] || dead[1] || dead[2])
#define OUT(r) (failed[r] || dead[r])
#define ALL_FAILED (OUT(0) && OUT(1) && OUT(2))
#endif

// Whether what `me` has read so far counts. A rank's streams write garbage only after its own control word was set, and
// no word is ever cleared. So a rank that looks at every member's word after the read, in any order, learns of all garbage
// that it can have read. Its own word is not enough: a peer may have failed, and written garbage here, before this rank
// hears of it.
#if MUTATION == LONELY_CHECK
#define COUNTS (!failed[me])
#elif MUTATION == NO_CHECK
#define COUNTS true
#else
#define COUNTS (!SOMEBODY_FAILED)
#endif

#define IS_CAPTURED(plan) ((CAPTURED >> (plan)) & 1)

// A wait ends when the word has the value that is waited for, or when its rank has failed.
#if FAULTS && MUTATION != DEAF_WAIT
#define RELEASED failed[me]
#else
#define RELEASED false
#endif
#define SIGNALED(word) ((IS_CAPTURED(plan) -> word.value == 1 : word.value > word.taken) || RELEASED)

inline take_signal(word) {
  if
  :: IS_CAPTURED(plan)
  :: else -> word.taken++
  fi
}

inline put_signal(word) {
  if
  :: IS_CAPTURED(plan) -> word.value = 1
  :: else -> word.put++; word.value = word.put
  fi
}

inline reset_signal(word) {
  if
  :: IS_CAPTURED(plan) -> word.value = 0
  :: else
  fi
}

// How many peers a rank writes for, and reads from. With UPWARD, those peers come first in rotated order.
#if UPWARD
#define READERS(r) (RANKS - 1 - r)
#define WRITERS(r) (r)
#else
#define READERS(r) (RANKS - 1)
#define WRITERS(r) (RANKS - 1)
#endif

// On to the next peer, and after the last one to the next iteration.
inline next(peers) {
  if
  :: k < peers -> k++
  :: else -> k = 1; i++
  fi
}

#if FAULTS
#define UNLESS_DEAD unless { dead[me] }
#else
#define UNLESS_DEAD
#endif

// A rank's peers, one after the other: those that it writes for, in rotated order (TO), and those that it reads from, in
// the order in which their data arrive (FROM).
#define TO ((me + k) % RANKS)
#define MY_CREDIT credit[WORD(me, TO, plan, i % SLOTS)]
#define THEIR_ARRIVAL arrival[WORD(TO, me, plan, i % SLOTS)]
#define SLOT_TO_WRITE buffer[SLOT(TO, me, plan, i % SLOTS)]

#define FROM ((me + RANKS - k) % RANKS)
#define MY_ARRIVAL arrival[WORD(me, FROM, plan, i % SLOTS)]
#define THEIR_CREDIT credit[WORD(FROM, me, plan, i % SLOTS)]
#define SLOT_TO_READ buffer[SLOT(me, FROM, plan, i % SLOTS)]

inline signal_all(words) {
  do
  :: d_step { k < RANKS -> put_signal(words); k++ }
  :: atomic { k == RANKS -> k = 1; break }
  od
}

inline wait_all(words) {
  do
  :: atomic { k < RANKS && SIGNALED(words) -> take_signal(words); k++ }
  :: atomic { k == RANKS -> k = 1; break }
  od
}

#include "slots.pml"
#include "exchange.pml"
#if LOAN
#include "loan.pml"
#endif
#if MEETING
#include "meeting.pml"
#endif
#if RETURNS
#include "returns.pml"
#endif

#if FAULTS
// One rank dies, or gives up: its user calls abort, or one of its waits misses its deadline.
proctype Fault() {
  if
  :: dead[0] = true
  :: dead[1] = true
  :: failed[0] = true
  :: failed[1] = true
#if RANKS == 3
  :: dead[2] = true
  :: failed[2] = true
#endif
  fi
}

// Each living rank hears of it at some later time, through its sockets, and fails too.
#define HEARS(r) atomic { !OUT(r) && (SOMEBODY_FAILED || SOMEBODY_DEAD) -> failed[r] = true }
proctype Liveness() {
end:
  do
  :: HEARS(0)
  :: HEARS(1)
#if RANKS == 3
  :: HEARS(2)
#endif
  :: ALL_FAILED -> break
  od
}
#endif

init {
  byte r;
  byte w;
  byte p;
  atomic {
    // A plan's constructor grants each slot once, and each place to its first sender.
#if RETURNS
    for (r : 0 .. RANKS - 1) {
      for (w : 0 .. PLACES - 1) {
        if
        :: w < RETURNS_TO(r) ->
           RETURN_CREDIT(SENDER_OF_TURN(r, w), r).value = 1;
           RETURN_CREDIT(SENDER_OF_TURN(r, w), r).put = 1
        :: else
        fi
      }
    }
#else
    for (w : 0 .. WORDS - 1) {
      credit[w].value = 1;
      credit[w].put = 1
    }
#endif
    for (p : 0 .. PLANS - 1) {
      for (r : 0 .. RANKS - 1) {
#if RETURNS
        run Computer(r);
        run Returner(r)
#elif EXCHANGE
        run Exchanger(r, p)
#elif SUMMED
        run Summer(r, p)
#elif LOAN
        run Lender(r, p)
#elif MEETING
        run Stream(r, p);
        run Block(r, p, 0);
        run Block(r, p, 1)
#else
        if
        :: READERS(r) > 0 -> run Writer(r, p)
        :: else
        fi;
        if
        :: WRITERS(r) > 0 -> run Reader(r, p)
        :: else
        fi
#endif
      }
    }
#if FAULTS
    run Fault();
    run Liveness()
#endif
  }
}

// SPDX-License-Identifier: Apache-2.0
// Blocks of kernels that meet.

#define BLOCKS 2      // each has words of its own, and half of each payload
Word met[RANKS * RANKS * BLOCKS];  // a block: I have come so far
byte begun[RANKS];    // the kernel that runs on a rank, whose blocks may begin
byte ended[RANKS];    // blocks of all kernels

// Two ranks: each has one peer, whatever k says. A kernel in a rank's stream begins when what is in front of it has
// ended, and ends when all its blocks have.
proctype Stream(byte me; byte plan) {
  byte i = 1;
  byte k = 1;
  bool right;
  {
    do
    :: i <= ITERATIONS ->
#if PULL
       SLOT_TO_WRITE.first = i;
       SLOT_TO_WRITE.last = i;
#endif
       begun[me] = i;
       ended[me] == i * BLOCKS;
#if !PULL
       right = (SLOT_TO_READ.first == i);
       d_step {
         right = right && SLOT_TO_READ.last == i;
         assert(right || !COUNTS);
         right = false
       };
#endif
       i++
    :: i > ITERATIONS -> break
    od
  } UNLESS_DEAD
}

#define BLOCK_WORD(owner, writer) met[((owner) * RANKS + (writer)) * BLOCKS + block]
#define THEIR_BLOCK BLOCK_WORD(TO, me)
#define MY_BLOCK BLOCK_WORD(me, FROM)

// A block reads its half of the peer's memory, or writes it there.
inline work() {
  d_step {
    if
#if PULL
    :: block == 0 -> assert(SLOT_TO_READ.first == i || !COUNTS)
    :: else -> assert(SLOT_TO_READ.last == i || !COUNTS)
#else
    :: block == 0 -> SLOT_TO_WRITE.first = i
    :: else -> SLOT_TO_WRITE.last = i
#endif
    fi
  }
}

#if MUTATION == NOT_DRAINED
#define MET_BEHIND (SIGNALLED(MY_BLOCK) || block == 1)
#else
#define MET_BEHIND SIGNALLED(MY_BLOCK)
#endif

// It meets the peer's same block before, and again behind: both times on the same words, which count on.
proctype Block(byte me; byte plan; byte block) {
  byte i = 1;
  byte k = 1;
  {
    do
    :: d_step { i <= ITERATIONS && begun[me] == i -> put_signal(THEIR_BLOCK) };
#if MUTATION == NOT_READY
       work();
       atomic { SIGNALLED(MY_BLOCK) -> take_signal(MY_BLOCK) };
#else
       atomic { SIGNALLED(MY_BLOCK) -> take_signal(MY_BLOCK) };
       work();
#endif
       d_step { put_signal(THEIR_BLOCK) };
       atomic { MET_BEHIND -> take_signal(MY_BLOCK); ended[me]++; i++ }
    :: i > ITERATIONS -> break
    od
  } UNLESS_DEAD
}

// SPDX-License-Identifier: Apache-2.0
// Meetings: each block of a kernel synchronizes with the same block of the peer's kernel, before it works on the peer's
// memory and again afterwards.

#define BLOCKS 2      // each has its own words, and half of each payload
Word met[RANKS * RANKS * BLOCKS];  // from a block: I have begun, or I am done
byte begun[RANKS];    // number of the kernel that runs on a rank: its blocks may begin
byte ended[RANKS];    // number of blocks that have ended on a rank, of all kernels

// A rank's stream. There are two ranks: each has one peer, whatever k says. A kernel in the stream begins when what is in
// front of it has ended, and ends when all its blocks have ended.
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
#define MET_BEHIND (SIGNALED(MY_BLOCK) || block == 1)
#else
#define MET_BEHIND SIGNALED(MY_BLOCK)
#endif

// A block meets the peer's same block before its work, and again afterwards: both times on the same words, which continue
// to count.
proctype Block(byte me; byte plan; byte block) {
  byte i = 1;
  byte k = 1;
  {
    do
    :: d_step { i <= ITERATIONS && begun[me] == i -> put_signal(THEIR_BLOCK) };
#if MUTATION == NOT_READY
       work();
       atomic { SIGNALED(MY_BLOCK) -> take_signal(MY_BLOCK) };
#else
       atomic { SIGNALED(MY_BLOCK) -> take_signal(MY_BLOCK) };
       work();
#endif
       d_step { put_signal(THEIR_BLOCK) };
       atomic { MET_BEHIND -> take_signal(MY_BLOCK); ended[me]++; i++ }
    :: i > ITERATIONS -> break
    od
  } UNLESS_DEAD
}

// SPDX-License-Identifier: Apache-2.0
// Each rank repeatedly writes into its right neighbor's memory; signals say when there is something to read, and when
// it may be overwritten. Collectives are built from these operations; use them directly where no collective fits:
//
//   tandem run -n 3 -- build/release/examples/first_steps/put_and_wait
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/world.hpp"

int main() try {
  constexpr std::int64_t count = 1000;
  constexpr std::uint32_t may_write = 0;  // channels of the signal pad, one per kind of signal
  constexpr std::uint32_t has_come = 1;

  const tandem::World world = tandem::init();
  const tandem::Team& team = world.team();
  tandem::Device& device = world.device();
  const int right = (team.rank() + 1) % team.size();
  const int left = (team.rank() + team.size() - 1) % team.size();

  auto inbox = tandem::SymmetricTensor::empty(team, {count}, tandem::f32);  // the left neighbor writes into it
  inbox.rendezvous();                                                       // before this, no other rank can access it
  const tandem::SignalPad& pad = inbox.signal_pad();
  const tandem::Buffer memory(world.shared_device(), inbox.local().bytes());  // no peer reads it, so any memory works
  const tandem::TensorView block = memory.view({count}, tandem::f32);         // the data to send

  const tandem::Stream stream(device);
  pad.put_signal(stream, left, may_write);  // the inbox is empty
  int wrong = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<float> values(count, static_cast<float>(10 * round + team.rank()));
    device.upload(block, values);  // free again: synchronize waited for the last round's copy

    // All of this is only queued. A signal follows its data in the stream; whoever has waited for it sees the data.
    pad.wait_signal(stream, right, may_write);
    inbox.put(stream, right, block);
    pad.put_signal(stream, right, has_come);
    pad.wait_signal(stream, left, has_come);
    team.synchronize(stream);  // waits on the host; a signal that misses its deadline is an error that names the peer

    values = device.download<float>(inbox.local());
    pad.put_signal(stream, left, may_write);  // only now: the data has been read
    for (const float value : values) {
      if (value != static_cast<float>(10 * round + left)) ++wrong;
    }
  }
  std::printf("rank %d: 3 blocks came from rank %d, %d elements wrong\n", team.rank(), left, wrong);
  return wrong == 0 ? 0 : 1;
} catch (const tandem::Error& error) {  // its text says what was given, what is allowed, and on which rank
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Each rank writes into its right neighbour's memory, again and again; signals say when there is something to read, and
// when it may be written over. That is what collectives are made of, and what to write where none of them fits:
//
//   tandem run -n 3 -- build/release/examples/first_steps/put_and_wait
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/world.hpp"

int main() try {
  constexpr std::int64_t count = 1000;
  constexpr std::uint32_t may_write = 0;  // channels of the signal pad: one for each kind of signal
  constexpr std::uint32_t has_come = 1;

  const tandem::World world = tandem::init();
  const tandem::Team& team = world.team();
  tandem::Device& device = world.device();
  const int right = (team.rank() + 1) % team.size();
  const int left = (team.rank() + team.size() - 1) % team.size();

  auto inbox = tandem::SymmetricTensor::empty(team, {count}, tandem::f32);  // the left neighbour writes into it
  inbox.rendezvous();                                                       // before it, nobody else reaches it
  const tandem::SignalPad& pad = inbox.signal_pad();
  const std::size_t bytes = inbox.local().bytes();
  const tandem::Buffer block(world.shared_device(), bytes);  // what is sent: no peer reads it, so any memory will do

  const tandem::Stream stream(device);
  pad.put_signal(stream, left, may_write);  // the inbox is empty
  int wrong = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<float> values(count, static_cast<float>(10 * round + team.rank()));
    device.upload(block.data(), values.data(), bytes);  // the last round's copy has read it, since synchronize waited

    // All of this is only queued. A signal follows its data in the stream; who has waited for it sees the data.
    pad.wait_signal(stream, right, may_write);
    void* const there = inbox.remote(right).data();  // a peer's memory: the copy goes over a link
    device.copy(stream, {.dst = there, .src = block.data(), .bytes = bytes, .path = tandem::Path::link});
    pad.put_signal(stream, right, has_come);
    pad.wait_signal(stream, left, has_come);
    team.synchronize(stream);  // the host waits; a signal that does not come in time is an error that names the peer

    device.download(values.data(), inbox.local().data(), bytes);
    pad.put_signal(stream, left, may_write);  // only now: what came has been read
    for (const float value : values) {
      if (value != static_cast<float>(10 * round + left)) ++wrong;
    }
  }
  std::printf("rank %d: 3 blocks came from rank %d, %d elements wrong\n", team.rank(), left, wrong);
  return wrong == 0 ? 0 : 1;
} catch (const tandem::Error& error) {  // says what was given, what is allowed, and which rank
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

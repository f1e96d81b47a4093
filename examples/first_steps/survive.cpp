// SPDX-License-Identifier: Apache-2.0
// The last rank is killed; the others are notified, and continue in a team without it:
//
//   tandem run -n 3 --on-failure continue -- build/release/examples/first_steps/survive
//
// By default, tandem run ends all ranks when one fails. Its exit code is that of the first to fail: 137 for SIGKILL.
#include <csignal>
#include <cstdio>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/team/world.hpp"

namespace {

/// The number of ranks in the team, as a sum of ones.
int count(const tandem::Team& team, const tandem::TensorView& memory, const tandem::Stream& stream) {
  team.device().fill(memory, 1.0F);
  tandem::all_reduce(team, memory, memory, stream);
  team.synchronize(stream);  // only after this is the result valid
  return static_cast<int>(team.device().download<float>(memory)[0]);
}

}  // namespace

int main() try {
  const tandem::World world = tandem::init();
  if (world.size() < 2) {
    std::fputs("survive: one rank has nobody who goes on without it; start two or more\n", stderr);
    return 2;
  }
  const tandem::Stream stream(world.device());
  const tandem::Buffer buffer(world.shared_device(), sizeof(float));  // belongs to no team, so any team may use it
  const tandem::TensorView memory = buffer.view({1}, tandem::f32);
  tandem::Team team = world.team();
  for (int step = 0; team.size() == world.size(); ++step) {
    try {
      if (step == 3 && world.rank() == world.size() - 1) std::raise(SIGKILL);
      if (count(team, memory, stream) != team.size()) return 1;
    } catch (const tandem::PeerLost& lost) {  // on every other rank, from any call that waits; maybe in another step
      std::printf("rank %d lost rank %d: %s\n", world.rank(), lost.rank(), lost.what());
      // A team that lost a rank stays failed; the world, its device and other memory remain usable. Other teams, whose
      // members may wait for this rank, would have to be aborted here: Team::abort.
      stream.synchronize();          // what is still queued must not write into memory that is used again
      team = world.team().shrink();  // all that are left agree on who that is; if another is lost later: the same again
    }
  }
  const int ranks = count(team, memory, stream);
  std::printf("rank %d goes on: %d ranks\n", world.rank(), ranks);
  return ranks == world.size() - 1 ? 0 : 1;
} catch (const tandem::Error& error) {  // its text says what was given, what is allowed, and on which rank
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// A team is any ranks in any order. Here the even and the odd ranks are two teams, which sum while all ranks do, too:
//
//   tandem run -n 3 -- build/release/examples/first_steps/sub_teams
#include <cstdio>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/world.hpp"

namespace {

/// A tensor of one element that all members of `team` can access.
tandem::SymmetricTensor number(const tandem::Team& team, float value) {
  auto tensor = tandem::SymmetricTensor::empty(team, {1}, tandem::f32);
  tensor.rendezvous();
  team.device().fill(tensor.local(), value);
  return tensor;
}

float value_of(const tandem::SymmetricTensor& tensor) {
  return tensor.team().device().download<float>(tensor.local())[0];
}

/// The expected result: the sum of the members' world ranks.
float sum_of_ranks(const tandem::Team& team) {
  int sum = 0;
  for (const int rank : team.members()) sum += rank;
  return static_cast<float>(sum);
}

}  // namespace

int main() try {
  const tandem::World world = tandem::init();
  std::vector<int> mates;
  for (int rank = world.rank() % 2; rank < world.size(); rank += 2) mates.push_back(rank);

  const tandem::Team& all = world.team();
  const tandem::Team half = world.team(mates);  // called by its members only: the others create theirs
  const auto mine = static_cast<float>(world.rank());
  const auto in_half = number(half, mine);
  const auto in_all = number(all, mine);

  // Two teams share nothing, so neither sum waits for the other. Every rank queues them in the same order.
  const tandem::Stream stream(world.device());
  const tandem::Stream beside(world.device());
  tandem::all_reduce(half, in_half, stream);
  tandem::all_reduce(all, in_all, beside);
  half.synchronize(stream);
  all.synchronize(beside);

  std::printf("rank %d of the world, %d of %d in its team: sum %g; of all: %g\n", world.rank(), half.rank(),
              half.size(), value_of(in_half), value_of(in_all));
  return value_of(in_half) == sum_of_ranks(half) && value_of(in_all) == sum_of_ranks(all) ? 0 : 1;
} catch (const tandem::Error& error) {  // its text says what was given, what is allowed, and on which rank
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

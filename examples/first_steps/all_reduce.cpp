// SPDX-License-Identifier: Apache-2.0
// Every rank has a tensor, and gets the sum of all ranks' tensors:
//
//   tandem run -n 3 -- build/release/examples/first_steps/all_reduce
#include "tandem/collective/all_reduce.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/world.hpp"

int main() try {
  constexpr std::int64_t count = 1001;

  const tandem::World world = tandem::init();  // started by tandem run, torchrun, mpirun or srun, or alone
  const tandem::Team& team = world.team();     // all ranks
  tandem::Device& device = world.device();     // a GPU if there is one, else the host

  auto tensor = tandem::SymmetricTensor::empty(team, {count}, tandem::f32);  // this rank's own, on its device
  tensor.rendezvous();                                                       // once: now all ranks can access it

  std::vector<float> values(count);  // in host memory; the tensor may be in GPU memory, so copy there and back
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * static_cast<float>(team.rank());
  device.upload(tensor.local(), values);

  const tandem::Stream stream(device);
  tandem::all_reduce(team, tensor, stream);  // in place; queues the work (the first call also creates a plan)
  team.synchronize(stream);                  // the sums are complete, or this throws the error

  values = device.download<float>(tensor.local());
  const int sum_of_ranks = team.size() * (team.size() - 1) / 2;  // 0 + 1 + 2 + …
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != static_cast<float>(i) * static_cast<float>(sum_of_ranks)) ++wrong;
  }
  if (team.rank() == 0) std::printf("%zu sums over %d ranks, %d wrong\n", values.size(), team.size(), wrong);
  return wrong == 0 ? 0 : 1;
} catch (const tandem::Error& error) {  // its text says what was given, what is allowed, and on which rank
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// [linear]
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "tandem/tandem.hpp"

int main() {
  constexpr std::int64_t m = 512, n = 384, k = 256;  // tokens of all ranks, outputs of this rank, inputs
  auto world = tandem::init();                       // started by tandem run, torchrun, mpirun or srun, or alone
  auto team = world.team();                          // all ranks; or world.team({2, 0, 1}), any ordered subset
  auto& device = world.device();                     // this rank's GPU if there is one, else the host
  auto tokens = tandem::shard_of(m, team.size(), team.rank()).count;        // this rank's
  auto x = tandem::SymmetricTensor::empty(team, {tokens, k}, tandem::f32);  // one such tensor on every rank
  auto weight = tandem::SymmetricTensor::empty(team, {n, k}, tandem::f32);  // [outputs, inputs], as in PyTorch
  auto y = tandem::SymmetricTensor::empty(team, {m, n}, tandem::f32);
  y.rendezvous();  // from here on peers reach y; the layer below stages what it sends, and takes any memory
  device.fill(x.local(), 0.5F);
  device.fill(weight.local(), 2.0F);

  tandem::Stream stream{device};
  tandem::AllGatherLinear layer{team, {.m = m, .n = n, .k = k}};  // a plan: all ranks make it; it allocates and chooses
  layer(x.local(), weight.local(), y.local(), stream);        // asynchronous: y = all_gather(x) · weightᵀ, overlapped
  tandem::all_reduce(team, y, stream);                        // in place: the sum of all ranks' y
  team.synchronize(stream);                                   // waits; throws where y would not be valid
  if (team.rank() == 0) std::puts(layer.describe().c_str());  // what ran, why, and what was predicted

  auto sums = device.download<float>(y.local());
  return std::ranges::count(sums, static_cast<float>(k * team.size())) == m * n ? 0 : 1;
}
// [/linear]

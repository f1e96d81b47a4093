// SPDX-License-Identifier: Apache-2.0
// [linear]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tandem/tandem.hpp"

int main() {
  constexpr std::int64_t m = 512, n = 384, k = 256;  // tokens of all ranks, outputs of this rank, inputs
  auto world = tandem::init();                       // started by tandem run, torchrun, mpirun or srun, or alone
  auto team = world.team();                          // all ranks; or world.team({2, 0, 1}), any ordered subset
  auto rows = tandem::shard_rows(m, team.size(), team.rank()).count;        // this rank's tokens
  auto x = tandem::SymmetricTensor::empty(team, {rows, k}, tandem::f32);    // one such tensor on every rank
  auto weight = tandem::SymmetricTensor::empty(team, {n, k}, tandem::f32);  // [outputs, inputs], as in PyTorch
  auto y = tandem::SymmetricTensor::empty(team, {m, n}, tandem::f32);
  y.rendezvous();  // from here on peers reach y; the layer below stages what it sends, and takes any memory
  std::vector<float> host(x.local().bytes() / sizeof(float), 0.5F);
  world.device().upload(x.local().data(), host.data(), x.local().bytes());
  host.assign(weight.local().bytes() / sizeof(float), 2.0F);
  world.device().upload(weight.local().data(), host.data(), weight.local().bytes());

  tandem::Stream stream{world.device()};
  tandem::AllGatherLinear layer{team, {.m = m, .n = n, .k = k}};  // a plan: all ranks make it; it allocates and chooses
  layer(x.local(), weight.local(), y.local(), stream);        // asynchronous: y = all_gather(x) · weightᵀ, overlapped
  tandem::all_reduce(team, y, stream);                        // in place: the sum of all ranks' y
  team.synchronize(stream);                                   // waits; throws where y would not be valid
  if (team.rank() == 0) std::puts(layer.describe().c_str());  // what ran, why, and what was predicted

  host.resize(y.local().bytes() / sizeof(float));
  world.device().download(host.data(), y.local().data(), y.local().bytes());
  return std::ranges::count(host, static_cast<float>(k * team.size())) == m * n ? 0 : 1;
}
// [/linear]

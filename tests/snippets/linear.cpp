// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/world.hpp"

namespace {

void fill(const tandem::SymmetricTensor& tensor, float value) {
  const std::vector<float> values(static_cast<std::size_t>(tensor.sizes().numel()), value);
  tensor.team().device().upload(tensor.local().data(), values.data(), tensor.local().bytes());
}

}  // namespace

int main() {
  constexpr std::int64_t m = 64;
  constexpr std::int64_t n = 48;
  constexpr std::int64_t k = 32;
  // [linear]
  auto world = tandem::init();                                        // tandem run, torchrun, mpirun, srun, or alone
  auto team = world.team();                                           // or world.team({2, 0, 1}): any ordered subset
  auto rows = tandem::shard_rows(m, team.size(), team.rank()).count;  // this rank's tokens
  auto x = tandem::SymmetricTensor::empty(team, {rows, k}, tandem::f32);    // any memory will do: the plan has its own
  auto weight = tandem::SymmetricTensor::empty(team, {n, k}, tandem::f32);  // this rank's outputs
  auto y = tandem::SymmetricTensor::empty(team, {m, n}, tandem::f32);
  fill(x, 0.5F);
  fill(weight, 2.0F);
  // m: tokens of all ranks; n: outputs of this rank. Making a plan may block, allocates, and chooses how it runs.
  tandem::AllGatherLinear layer{team, {.m = m, .n = n, .k = k}};
  tandem::Stream stream{world.device()};
  layer(x.local(), weight.local(), y.local(), stream);         // run: asynchronous, allocates no device memory
  team.synchronize(stream);                                    // now y counts, or this throws
  if (world.rank() == 0) std::puts(layer.describe().c_str());  // what ran, why, what was predicted
  // [/linear]
  std::vector<float> result(static_cast<std::size_t>(m * n));
  world.device().download(result.data(), y.local().data(), y.local().bytes());
  for (const float value : result) {
    if (std::fabs(value - static_cast<float>(k)) > 1e-3F) return 1;
  }
  team.barrier();
  return 0;
}

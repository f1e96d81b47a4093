// SPDX-License-Identifier: Apache-2.0
// GPU memory and a stream that the program already owns: Tandem uses both as they are and copies neither, so that it
// fits into an engine with its own allocator. Needs a GPU; ranks may share one:
//
//   tandem run -n 2 -- build/cuda/examples/first_steps/existing_cuda
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <stdexcept>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/team/world.hpp"

namespace {

void check(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

}  // namespace

int main() try {
  constexpr std::int64_t count = 1001;
  constexpr std::size_t bytes = count * sizeof(float);
  const tandem::World world = tandem::init();
  const tandem::Team& team = world.team();
  const tandem::DeviceId device = world.device().id();
  if (device.type != tandem::DeviceType::cuda) {
    std::fputs("existing_cuda: this example needs a GPU\n", stderr);
    return 2;
  }

  // The program's own, on the GPU that Tandem has chosen for this rank.
  void* data = nullptr;
  cudaStream_t stream = nullptr;
  check(cudaSetDevice(device.index));
  check(cudaMalloc(&data, bytes));
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<float> values(count, static_cast<float>(team.rank() + 1));
  check(cudaMemcpyAsync(data, values.data(), bytes, cudaMemcpyHostToDevice, stream));

  tandem::AllReduce sum(team, {.count = count, .dtype = tandem::f32});  // created once, by all ranks together
  const tandem::TensorView tensor(data, {count}, tandem::f32, device);  // a view: owns nothing
  sum(tensor, tensor, stream);                                          // in place; queued after the copy
  team.synchronize(stream);                                             // the sums are complete, or this throws

  check(cudaMemcpy(values.data(), data, bytes, cudaMemcpyDeviceToHost));
  check(cudaStreamDestroy(stream));
  check(cudaFree(data));
  const int sum_of_ranks = team.size() * (team.size() + 1) / 2;  // 1 + 2 + …
  int wrong = 0;
  for (const float value : values) {
    if (value != static_cast<float>(sum_of_ranks)) ++wrong;
  }
  if (team.rank() == 0) std::printf("%zu sums over %d ranks, %d wrong\n", values.size(), team.size(), wrong);
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

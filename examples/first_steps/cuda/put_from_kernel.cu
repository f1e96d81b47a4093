// SPDX-License-Identifier: Apache-2.0
// One kernel that computes, stores its results into the right neighbor's memory, and goes on with what comes from the
// left one: each block signals its own part, and waits for the neighbor's same part, without the host. Needs GPUs;
// ranks may share one:
//
//   tandem run -n 2 -- build/cuda/examples/first_steps/put_from_kernel
#include <cstdint>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <stdexcept>
#include <vector>

#include "tandem/device/signal_device.cuh"
#include "tandem/tandem.hpp"

namespace {

constexpr int blocks = 8;  // each has a channel of the signal pad; all of them wait at once, so they have to be few
constexpr int block_threads = 256;
constexpr int count = blocks * 5000;

/// What a kernel needs for its signals. They are valid as long as the tensor, and may be captured into a graph.
struct Neighbors {
  tandem::SignalPut to_right[blocks];
  tandem::SignalWait from_left[blocks];
  tandem::WaitControl* control;
};

/// sums[i] = f(i) of this rank + f(i) of the left one.
__global__ void exchange(Neighbors neighbors, int rank, float* right, const float* inbox, float* sums) {
  const int part = count / blocks;
  const int begin = static_cast<int>(blockIdx.x) * part;
  for (int i = begin + static_cast<int>(threadIdx.x); i < begin + part; i += block_threads) {
    sums[i] = static_cast<float>(rank * 1000 + i % 97);  // the computation
    right[i] = sums[i];                                  // a peer's memory
  }
  __shared__ bool has_come;
  __syncthreads();  // all stores of this block come before its signal
  if (threadIdx.x == 0) {
    tandem::put_signal(neighbors.to_right[blockIdx.x]);
    has_come = tandem::wait_signal(neighbors.from_left[blockIdx.x], neighbors.control);
  }
  __syncthreads();        // all threads see what thread 0 has waited for
  if (!has_come) return;  // the team has failed: `synchronize` throws, and says whom this waited for
  for (int i = begin + static_cast<int>(threadIdx.x); i < begin + part; i += block_threads) sums[i] += inbox[i];
}

void check(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

}  // namespace

int main() try {
  const tandem::World world = tandem::init();
  const tandem::Team& team = world.team();
  tandem::Device& device = world.device();
  if (device.id().type != tandem::DeviceType::cuda) {
    std::fputs("put_from_kernel: this example needs a GPU\n", stderr);
    return 2;
  }
  if (team.resident_blocks() < blocks) {
    std::fputs("put_from_kernel: too many ranks share this GPU for as many blocks that wait for each other\n", stderr);
    return 2;
  }
  check(cudaSetDevice(device.id().index));
  const int right = (team.rank() + 1) % team.size();
  const int left = (team.rank() + team.size() - 1) % team.size();

  auto inbox = tandem::SymmetricTensor::empty(team, {count}, tandem::f32, {.channels = blocks});
  inbox.rendezvous();
  const auto sums = tandem::SymmetricTensor::empty(team, {count}, tandem::f32);  // no peer reads it: any memory works
  Neighbors neighbors{.to_right = {}, .from_left = {}, .control = team.control()};
  for (std::uint32_t channel = 0; channel < blocks; ++channel) {
    neighbors.to_right[channel] = inbox.signal_pad().signal_to(right, channel);
    neighbors.from_left[channel] = inbox.signal_pad().signal_from(left, channel);
  }

  const tandem::Stream stream(device);
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, exchange));  // loads the kernel, before anything waits on the GPU
  team.barrier();
  exchange<<<blocks, block_threads, 0, static_cast<cudaStream_t>(stream.ref().native_handle())>>>(
      neighbors, team.rank(), inbox.remote(right).data_as<float>(), inbox.local().data_as<float>(),
      sums.local().data_as<float>());
  check(cudaGetLastError());
  team.synchronize(stream);

  int wrong = 0;
  const std::vector<float> values = device.download<float>(sums.local());
  for (int i = 0; i < count; ++i) {
    const int expected = (team.rank() + left) * 1000 + 2 * (i % 97);
    if (values[static_cast<std::size_t>(i)] != static_cast<float>(expected)) ++wrong;
  }
  std::printf("rank %d: %d sums with rank %d, %d wrong\n", team.rank(), count, left, wrong);
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

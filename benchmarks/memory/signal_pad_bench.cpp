// SPDX-License-Identifier: Apache-2.0
// The cost of signals between ranks, in microseconds as rank 0 measures it: of a barrier of all ranks, and of one
// direction of a signal that goes from rank 0 to rank 1 and back. Medians of 20 runs of 50 each, queued one after the
// other and, on CUDA, in one graph.
//
//   tandem run -n 2 --bind core -- build/release/benchmarks/memory/tandem-bench-signal_pad
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>

#include "tandem/device/graph.hpp"
#include "tandem/memory/symmetric_memory.hpp"
#include "tandem/team/world.hpp"

namespace {

using namespace tandem;

constexpr int calls = 50;
constexpr int runs = 20;

/// Of one call, if `run` queues `many` of them.
double median_us(const Team& team, StreamRef stream, int many, const std::function<void()>& run) {
  std::array<double, runs> times{};
  run();  // loads whatever is loaded on first use
  for (double& time : times) {
    team.synchronize(stream);
    const auto began = std::chrono::steady_clock::now();
    run();
    team.synchronize(stream);
    time = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / many;
  }
  std::ranges::nth_element(times, times.begin() + runs / 2);
  return times[runs / 2];
}

void measure(const World& world) {
  const Team& team = world.team();
  const Stream stream(team.device());
  SymmetricMemory memory = SymmetricMemory::allocate(team, 0);
  memory.rendezvous();
  const SignalPad& pad = memory.signal_pad();
  const auto barrier = [&] { pad.barrier(stream, 0); };
  const auto there_and_back = [&] {
    if (team.rank() > 1) return;
    const int peer = 1 - team.rank();
    if (team.rank() == 0) pad.put_signal(stream, peer, 1);
    pad.wait_signal(stream, peer, 1);
    if (team.rank() == 1) pad.put_signal(stream, peer, 1);
  };
  const auto report = [&](const char* what, int ways, const std::function<void()>& call) {
    const auto all = [&] {
      for (int i = 0; i < calls; ++i) call();
    };
    const double eager = median_us(team, stream, calls * ways, all);
    if (team.rank() == 0) std::printf("%-8s queued %8.2f us", what, eager);
    if (team.device().id().type == DeviceType::cuda) {
      const Graph graph(team.device(), stream, all);
      const double replayed = median_us(team, stream, calls * ways, [&] { graph.launch(stream); });
      if (team.rank() == 0) std::printf("   in a graph %8.2f us", replayed);
    }
    if (team.rank() == 0) std::printf("\n");
  };
  report("barrier", 1, barrier);
  if (team.size() > 1) report("signal", 2, there_and_back);
}

}  // namespace

int main() {
  try {
    measure(tandem::init());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

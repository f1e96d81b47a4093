// SPDX-License-Identifier: Apache-2.0
// The fixed cost of the host's streams: of each operation that a small collective queues.
#include <array>
#include <atomic>
#include <benchmark/benchmark.h>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"

namespace {

using namespace tandem;

// Queues `tasks` fills of 64 bytes and waits for them.
void enqueue_and_synchronize(benchmark::State& state) {
  const auto device = open_device({});
  const Stream stream(*device);
  const Buffer memory(device, 64);
  for (auto _ : state) {
    for (std::int64_t i = 0; i < state.range(0); ++i) device->fill(stream, memory.data(), std::byte{1}, 64);
    stream.synchronize();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(enqueue_and_synchronize)->ArgName("tasks")->Arg(1)->Arg(6)->Arg(60)->UseRealTime();

// What one rank of a small all_reduce queues: copies in and out, signals, waits that are already satisfied, a
// reduction.
void small_all_reduce_alone(benchmark::State& state) {
  const auto device = open_device({});
  const Stream stream(*device);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer source(device, bytes);
  const Buffer slot(device, bytes);
  const Buffer result(device, bytes);
  std::vector<SignalWord> words(2);
  WaitControl control{};
  control.timeout_ns = 1'000'000'000;
  const SignalPut put{.mine = &words[0], .theirs = &words[1]};
  const SignalWait wait{.word = &words[1], .count = 1};
  const std::array<const void*, 2> sources{source.data(), slot.data()};
  const std::array<void*, 1> destinations{result.data()};
  for (auto _ : state) {
    device->copy(stream, {.dst = slot.data(), .src = source.data(), .bytes = bytes});
    device->signal(stream, {&put, 1});
    device->wait(stream, {&wait, 1}, &control);
    device->reduce(
        stream,
        {.sources = sources, .destinations = destinations, .count = static_cast<std::int64_t>(bytes / sizeof(float))});
    device->signal(stream, {&put, 1});
    device->wait(stream, {&wait, 1}, &control);
    stream.synchronize();
  }
}
BENCHMARK(small_all_reduce_alone)->ArgName("bytes")->Arg(64)->Arg(4096)->Arg(65536)->UseRealTime();

// All ranks signal each other and wait for each other. The ranks are threads.
void barrier(benchmark::State& state) {
  const auto ranks = static_cast<std::size_t>(state.range(0));
  constexpr int rounds = 200;                    // per iteration, so that starting one hardly counts
  std::vector<SignalWord> words(ranks * ranks);  // [owner][peer]
  WaitControl control{};
  control.timeout_ns = 10'000'000'000;
  const auto rank_main = [&](std::size_t me, auto&& keep_running) {
    const auto device = open_device({});
    const Stream stream(*device);
    std::vector<SignalPut> puts;
    std::vector<SignalWait> waits;
    for (std::size_t i = 1; i < ranks; ++i) {
      const std::size_t peer = (me + i) % ranks;
      puts.push_back({.mine = &words[me * ranks + peer], .theirs = &words[peer * ranks + me]});
      waits.push_back({.word = &words[me * ranks + peer]});
    }
    while (keep_running()) {
      for (int round = 0; round < rounds; ++round) {
        device->signal(stream, puts);
        device->wait(stream, waits, &control);
        stream.synchronize();
      }
    }
  };
  // Before each iteration, rank 0 decides whether there is one.
  std::atomic<int> begun{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> peers;
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    peers.emplace_back([&, rank] {
      int done = 0;
      rank_main(rank, [&] {
        while (begun.load() == done && !stop.load()) std::this_thread::yield();
        return begun.load() > done++;
      });
    });
  }
  rank_main(0, [&] {
    const bool more = state.KeepRunning();
    more ? static_cast<void>(begun.fetch_add(1)) : stop.store(true);
    return more;
  });
  for (std::thread& peer : peers) peer.join();
  state.counters["barrier"] =
      benchmark::Counter(rounds, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(barrier)->ArgName("ranks")->Arg(2)->Arg(3)->Arg(4)->Arg(8)->UseRealTime();

// One stream waits for another, for which no thread waits.
void event_between_streams(benchmark::State& state) {
  const auto device = open_device({});
  const Stream first(*device);
  const Stream second(*device);
  const Buffer memory(device, 64);
  Event event(*device);
  for (auto _ : state) {
    device->fill(first, memory.data(), std::byte{1}, 64);
    order_after(second, first, event);
    device->fill(second, memory.data(), std::byte{2}, 64);
    second.synchronize();
  }
}
BENCHMARK(event_between_streams)->UseRealTime();

// Heavy work wakes a worker thread: the time until it begins if no thread waits for the stream.
void launch_until_begun(benchmark::State& state) {
  const auto device = open_device({});
  const Stream stream(*device);
  std::atomic<int> begun{0};
  int launched = 0;
  for (auto _ : state) {
    device->launch(stream, [&begun] { begun.fetch_add(1); });
    ++launched;
    while (begun.load() != launched) std::this_thread::yield();
  }
  stream.synchronize();
}
BENCHMARK(launch_until_begun)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();

// SPDX-License-Identifier: Apache-2.0
// What only the host device promises: truly asynchronous streams under random delays, and waiting threads that help.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"

#include "device/corked.hpp"
#include "device/on_device.hpp"
#include "device/one_core.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class HostOrderTest : public OnDevice {};

// Random tasks on random streams, ordered by random events, while random streams are synchronized. Each task checks,
// by vector clocks (how many tasks of each stream have run), that everything ordered before it has run.
TEST_P(HostOrderTest, StreamsAndEventsUnderRandomDelays) {
  constexpr std::size_t stream_count = 5;
  constexpr std::size_t event_count = 4;
  std::vector<Stream> streams;
  std::vector<Event> events;
  for (std::size_t i = 0; i < stream_count; ++i) {
    streams.emplace_back(device(), i % 2 == 0 ? StreamPriority::normal : StreamPriority::high);
  }
  for (std::size_t i = 0; i < event_count; ++i) events.emplace_back(device());
  std::array<std::atomic<int>, stream_count> ran{};
  std::array<int, stream_count> queued{};
  using Known = std::array<int, stream_count>;  // for each stream, how many tasks must have run
  std::array<Known, stream_count> known{};
  std::array<Known, event_count> marked{};
  std::atomic<int> wrong{0};
  for (int step = 0; step < 8000; ++step) {
    const auto s = static_cast<std::size_t>(random_between(0, stream_count - 1));
    const auto e = static_cast<std::size_t>(random_between(0, event_count - 1));
    switch (random_between(0, 9)) {
      case 0:
        events[e].record(streams[s]);
        marked[e] = known[s];
        break;
      case 1:
        events[e].wait(streams[s]);
        for (std::size_t i = 0; i < stream_count; ++i) known[s][i] = std::max(known[s][i], marked[e][i]);
        break;
      case 2:
        if (random_between(0, 9) == 0) streams[s].synchronize();
        break;
      default: {
        const std::int64_t delay = random_between(0, 30) == 0 ? random_between(0, 200) : 0;
        const int mine = queued[s]++;
        device().launch(streams[s], [&, s, mine, delay, before = known[s]] {
          if (ran[s].load() != mine) wrong.fetch_add(1);
          for (std::size_t i = 0; i < stream_count; ++i) {
            if (ran[i].load() < before[i]) wrong.fetch_add(1);
          }
          if (delay != 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
          ran[s].store(mine + 1);
        });
        known[s][s] = mine + 1;
      }
    }
  }
  device().synchronize();
  EXPECT_EQ(wrong.load(), 0);
  for (std::size_t s = 0; s < stream_count; ++s) EXPECT_EQ(ran[s].load(), queued[s]);
}

// Two threads queue corked bursts on one stream: no other task may run between those of a burst, so its check finds
// what it wrote. Bursts are both longer and shorter than the limit of held tasks; a heavy task submits some early.
TEST_P(HostOrderTest, WhatIsHeldBackIsNotTornApart) {
  const Stream stream(device());
  std::uint64_t cell = 0;  // accessed only by the stream's tasks, in order
  std::atomic<int> wrong{0};
  std::atomic<int> ran{0};
  constexpr int bursts = 400;
  const auto play = [&](unsigned char first) {
    for (int burst = 0; burst < bursts; ++burst) {
      const Corked corked(device(), stream);
      const int fills = 1 + burst * 7 % 50;
      std::uint64_t last = 0;
      for (int i = 0; i < fills; ++i) {
        const auto value = static_cast<unsigned char>(first + i);
        device().fill(stream, &cell, std::byte{value}, sizeof(cell));
        std::memset(&last, value, sizeof(last));
        if (burst % 3 != 0 || i + 1 < fills) continue;
        device().launch(stream, [&, last] {
          wrong.fetch_add(cell != last ? 1 : 0);
          ran.fetch_add(1);
        });
      }
      if (burst % 3 == 0) device().fill(stream, &cell, std::byte{0xFF}, sizeof(cell));
    }
  };
  std::thread other([&] { play(100); });
  play(1);
  other.join();
  stream.synchronize();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(ran.load(), 2 * ((bursts + 2) / 3));
}

TEST_P(HostOrderTest, WhatIsHeldBackRunsWithoutAnybodyWaiting) {
  const Stream stream(device());
  std::array<std::uint64_t, 2> cells{};
  Event done(device());
  {
    const Corked corked(device(), stream);
    device().fill(stream, &cells[0], std::byte{1}, 8);
    // A task that throws must not keep the others from running.
    device().launch(stream, [] { throw Unsupported("in between"); });
    device().fill(stream, &cells[1], std::byte{2}, 8);
  }
  done.record(stream);
  const auto deadline = Clock::now() + 30s;
  while (!done.query() && Clock::now() < deadline) std::this_thread::sleep_for(100us);
  ASSERT_TRUE(done.query());
  EXPECT_EQ(cells[0], 0x0101010101010101U);
  EXPECT_EQ(cells[1], 0x0202020202020202U);
  EXPECT_THROW(stream.synchronize(), Unsupported);
  stream.synchronize();  // an error is reported once
}

// Events order accesses to plain memory, without atomics: ThreadSanitizer reports a missing acquire or release.
TEST_P(HostOrderTest, EventsPublishPlainMemory) {
  Stream first(device());
  Stream second(device());
  Event there(device());
  Event back(device());
  std::vector<int> data(100);
  int wrong = 0;
  for (int round = 1; round <= 500; ++round) {
    back.wait(first);
    device().launch(first, [&data, round] { data.assign(data.size(), round); });
    there.record(first);
    there.wait(second);
    device().launch(second, [&data, &wrong, round] {
      for (const int value : data) wrong += value != round ? 1 : 0;
    });
    back.record(second);
    if (round % 100 == 0) first.synchronize();
  }
  second.synchronize();
  EXPECT_EQ(wrong, 0);
}

/// This thread's minor page faults so far: pages that it was the first to touch.
std::int64_t first_writes() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_minflt;
}

// Light work wakes no worker at once, since a thread that waits can do it itself. Page faults show which thread did it.
TEST_P(HostOrderTest, WhoSynchronizesHelps) {
  constexpr std::size_t rounds = 500;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const fresh = ::mmap(nullptr, rounds * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(fresh, MAP_FAILED);
  ::madvise(fresh, rounds * page, MADV_NOHUGEPAGE);
  const Stream stream(device());
  const std::int64_t before = first_writes();
  for (std::size_t i = 0; i < rounds; ++i) {
    device().fill(stream, static_cast<std::byte*>(fresh) + i * page, std::byte{1}, 1);
    stream.synchronize();
  }
  EXPECT_GT(first_writes() - before, static_cast<std::int64_t>(rounds) / 2);
  ::munmap(fresh, rounds * page);
}

TEST_P(HostOrderTest, AYieldGivesTheCoreToWhoWaitsForIt) {
  constexpr int rounds = 60;
  const OneCore core;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> turns{0};
  std::thread other([&] {
    while (!stop.load(std::memory_order_relaxed)) turns.fetch_add(1, std::memory_order_relaxed);
  });
  Stream stream(device());
  int given = 0;
  for (int round = 0; round < rounds; ++round) {
    std::uint64_t before = 0;
    device().launch(stream, [&] { before = turns.load(std::memory_order_relaxed); });
    device().yield(stream);
    device().launch(stream, [&] { given += turns.load(std::memory_order_relaxed) != before ? 1 : 0; });
    stream.synchronize();
  }
  stop.store(true);
  other.join();
  EXPECT_GT(given, rounds / 4) << "of " << rounds << "; without a yield a turn comes every few milliseconds";
}

// No thread synchronizes the stream meanwhile, so light work is left to the pacemaker unless it is flushed.
TEST_P(HostOrderTest, AFlushStartsLightWorkSooner) {
  constexpr int rounds = 31;
  Stream stream(device());
  SignalWord word{};
  const std::array put{SignalPut{.mine = &word, .theirs = &word}};
  std::uint64_t signals = 0;
  std::array<Clock::duration, 2> medians{};
  // Repeated since other load may make a wake-up take longer than the time that a flush saves.
  for (int batch = 0; batch < 5 && 2 * medians[1] >= medians[0]; ++batch) {
    std::array<std::vector<Clock::duration>, 2> taken;
    for (int round = 0; round < 2 * rounds; ++round) {
      const bool flushed = round % 2 == 1;
      const auto begin = Clock::now();
      device().signal(stream, put);
      if (flushed) device().flush(stream);
      while (std::atomic_ref(word.value).load() <= signals && Clock::now() - begin < 10s) {
        std::this_thread::sleep_for(1us);
      }
      taken[flushed ? 1 : 0].push_back(Clock::now() - begin);
      ASSERT_EQ(std::atomic_ref(word.value).load(), ++signals);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      std::ranges::nth_element(taken[i], taken[i].begin() + rounds / 2);
      medians[i] = taken[i][rounds / 2];
    }
  }
  EXPECT_LT(2 * medians[1], medians[0]) << "medians in ns, and no better in five batches";
}

/// How often this process's other threads have gone to sleep (voluntary context switches) so far.
std::int64_t sleeps_of_others() {
  std::int64_t sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      std::int64_t count = 0;
      if (word == "voluntary_ctxt_switches:" && status >> count) sleeps += count;
    }
  }
  return sleeps;
}

// Each timed sleep costs some core more time than a small collective takes, so the pacemaker must not tick often.
TEST_P(HostOrderTest, NobodyLooksOftenAfterAStreamThatItsCallerDrains) {
  const Stream stream(device());
  const std::vector<std::byte> data(std::size_t{2} << 20);
  const Buffer from = upload(data);
  const Buffer to = upload(data);
  const auto copies_for = [&](Clock::duration time) {
    const auto begin = Clock::now();
    while (Clock::now() - begin < time) {
      device().copy(stream, {.dst = to.data(), .src = from.data(), .bytes = from.bytes()});
      stream.synchronize();
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  copies_for(20ms);
  const std::int64_t before = sleeps_of_others();
  const double seconds = copies_for(300ms);
  EXPECT_LT(static_cast<double>(sleeps_of_others() - before), seconds / 400e-6);
}

TEST_P(HostOrderTest, AWaitingStreamHelpsTheOneItWaitsFor) {
  // A chain of dependencies through many streams, of which only the last one is synchronized.
  std::vector<Stream> streams;
  for (int i = 0; i < 20; ++i) streams.emplace_back(device());
  Buffer word = upload(std::vector<unsigned char>{0});
  Event event(device());
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (i > 0) event.wait(streams[i]);
    device().fill(streams[i], word.data(), static_cast<std::byte>(i + 1), 1);
    event.record(streams[i]);
  }
  streams.back().synchronize();
  EXPECT_EQ(download<unsigned char>(word)[0], 20);
}

TEST_P(HostOrderTest, ManyIdleStreamsAndLongQueues) {
  std::vector<Stream> streams;
  for (int i = 0; i < 500; ++i) streams.emplace_back(device());
  std::atomic<int> ran{0};
  for (int i = 0; i < 20'000; ++i) device().launch(streams[7], [&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
  streams[7].synchronize();
  EXPECT_EQ(ran.load(), 20'000);
}

INSTANTIATE_TEST_SUITE_P(Host, HostOrderTest, ::testing::Values(DeviceType::host), type_name);

}  // namespace
}  // namespace tandem::testing

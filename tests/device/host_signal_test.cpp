// SPDX-License-Identifier: Apache-2.0
// Signals between ranks that share memory: threads of one process, and processes.
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <new>
#include <optional>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "device/on_device.hpp"
#include "device/one_core.hpp"
#include "device/registered.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Memory that two ranks share: a word for each, and a box of data in each direction.
struct Shared {
  SignalWord words[2];
  std::uint64_t boxes[2][512];
};

class Mapping {
 public:
  Mapping() {
    void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    shared_ = ::new (memory) Shared{};
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(shared_, sizeof(Shared)); }
  [[nodiscard]] Shared& get() const noexcept { return *shared_; }

 private:
  Shared* shared_;
};

// One of two ranks: fills its own box, signals, waits, reads the other's box. Returns the number of wrong elements.
int exchange(Shared& shared, std::size_t me, int rounds, std::uint64_t delay_seed) {
  const auto device = open_device({});
  const Registered<WaitControl> page(device);
  WaitControl* const control = page.data();
  control->timeout_ns = 60'000'000'000;
  std::mt19937_64 random(delay_seed + me);
  int wrong = 0;
  {
    Stream stream(*device);
    const std::size_t peer = 1 - me;
    std::vector<std::uint64_t> mine(512);
    std::vector<std::uint64_t> theirs(512);
    const SignalPut put{.mine = &shared.words[me], .theirs = &shared.words[peer]};
    const SignalWait wait{.word = &shared.words[me], .count = 1, .peer = static_cast<int>(peer)};
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<std::uint64_t>(round) * 1000 + me * 600 + i;
      if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      // Two signals per round, after filling and after reading: no rank overwrites data that the other still reads.
      device->copy(stream, {.dst = shared.boxes[me], .src = mine.data(), .bytes = sizeof(shared.boxes[me])});
      device->signal(stream, {&put, 1});
      device->wait(stream, {&wait, 1}, control);
      device->copy(stream, {.dst = theirs.data(), .src = shared.boxes[peer], .bytes = sizeof(shared.boxes[peer])});
      device->signal(stream, {&put, 1});
      device->wait(stream, {&wait, 1}, control);
      stream.synchronize();
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        wrong += theirs[i] != static_cast<std::uint64_t>(round) * 1000 + peer * 600 + i ? 1 : 0;
      }
    }
    wrong += static_cast<int>(control->failed);
  }
  return wrong;
}

enum class Cores : bool { any, one };

class HostSignalTest : public ::testing::TestWithParam<Cores> {
 protected:
  void SetUp() override {
    if (GetParam() == Cores::one) core_.emplace();
  }

 private:
  std::optional<OneCore> core_;
};

TEST_P(HostSignalTest, TwoThreadsExchange) {
  const Mapping mapping;
  int wrong[2] = {-1, -1};
  std::thread other([&] { wrong[1] = exchange(mapping.get(), 1, 1000, seed()); });
  wrong[0] = exchange(mapping.get(), 0, 1000, seed());
  other.join();
  EXPECT_EQ(wrong[0], 0);
  EXPECT_EQ(wrong[1], 0);
}

TEST_P(HostSignalTest, TwoProcessesExchange) {
  const Mapping mapping;
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(exchange(mapping.get(), 1, 1000, seed()) == 0 ? 0 : 1);
  const int wrong = exchange(mapping.get(), 0, 1000, seed());
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(status, 0);
}

// A rank that waits for a signal which no peer has put yet.
struct Waiter {
  explicit Waiter(std::chrono::nanoseconds timeout) {
    control->timeout_ns = static_cast<std::uint64_t>(timeout.count());
  }
  // How long the wait took.
  Clock::duration run() const {
    Stream stream(*device);
    const SignalWait wait{.word = &mapping.get().words[0], .count = 1, .peer = 3, .channel = 2, .operation = 7};
    const auto begin = Clock::now();
    device->wait(stream, {&wait, 1}, control);
    stream.synchronize();
    return Clock::now() - begin;
  }
  std::shared_ptr<Device> device = open_device({});
  Registered<WaitControl> page{device};
  WaitControl* control = page.data();
  Mapping mapping;
};

TEST_P(HostSignalTest, ASleeperIsWoken) {
  constexpr auto slice = 20ms;  // a sleeper checks that often without being woken
  const Waiter waiter(60s);
  SignalWord* const words = waiter.mapping.get().words;
  const SignalPut put{.mine = &words[1], .theirs = &words[0]};
  const auto device = open_device({});
  Stream stream(*device);
  // Whether the waiter continues soon after the put, and before its sleep could have timed out.
  const auto is_woken = [&] {
    Clock::time_point awake_at = Clock::now();
    Clock::time_point put_at;
    std::thread peer([&] {
      const auto limit = awake_at + 10s;
      for (auto now = Clock::now(); std::atomic_ref(words[0].sleepers).load() == 0; now = Clock::now()) {
        awake_at = now;
        if (now > limit) break;
        std::this_thread::sleep_for(100us);
      }
      EXPECT_LE(awake_at, limit) << "the waiter does not sleep";
      std::this_thread::sleep_for(2ms);  // it counts itself as a sleeper before it sleeps
      put_at = Clock::now();
      device->signal(stream, {&put, 1});
      stream.synchronize();
    });
    static_cast<void>(waiter.run());
    const auto went_on_at = Clock::now();
    peer.join();
    return went_on_at - put_at < 8ms && went_on_at - awake_at < slice;
  };
  // Other load may delay some rounds, but a waiter that nobody wakes is never in time.
  int woken = 0;
  for (int batch = 0; batch < 5 && woken < 5; ++batch) {
    woken = 0;
    for (int i = 0; i < 9; ++i) woken += is_woken() ? 1 : 0;
  }
  EXPECT_GE(woken, 5) << "of nine, and no more in five batches";
  EXPECT_EQ(waiter.control->failed, 0U);
}

TEST_P(HostSignalTest, AnAbortEndsAWaitSoon) {
  const Waiter waiter(60s);
  std::thread other([&] {
    std::this_thread::sleep_for(30ms);
    std::atomic_ref(waiter.control->abort).store(1);
  });
  EXPECT_LT(waiter.run(), 10s);
  other.join();
  EXPECT_EQ(waiter.control->failed, 0U);
  EXPECT_EQ(waiter.mapping.get().words[0].taken, 1U);
}

TEST_P(HostSignalTest, ADeadlineIsRecorded) {
  const Waiter waiter(40ms);
  EXPECT_GE(waiter.run(), 40ms);
  EXPECT_EQ(waiter.control->abort, 1U);
  ASSERT_EQ(waiter.control->failed, 2U);
  EXPECT_EQ(waiter.control->failure.peer, 3);
  EXPECT_EQ(waiter.control->failure.channel, 2U);
  EXPECT_EQ(waiter.control->failure.operation, 7U);
  EXPECT_EQ(waiter.control->failure.expected, 1U);
  EXPECT_EQ(waiter.control->failure.seen, 0U);
  EXPECT_GE(waiter.control->failure.waited_ns, 40'000'000U);
}

TEST_P(HostSignalTest, ATimeoutThatIsSetMeanwhileCounts) {
  const auto set_soon = [](const Waiter& waiter, std::chrono::nanoseconds timeout) {
    std::thread other([&waiter, timeout] {
      std::this_thread::sleep_for(30ms);
      std::atomic_ref(waiter.control->timeout_ns).store(static_cast<std::uint64_t>(timeout.count()));
    });
    const auto took = waiter.run();
    other.join();
    EXPECT_EQ(waiter.control->failed, 2U);
    return took;
  };
  EXPECT_LT(set_soon(Waiter(20s), 40ms), 10s);
  EXPECT_GE(set_soon(Waiter(4s), 5s), 5s);
}

TEST_P(HostSignalTest, ARecordIsOfOneOfTwoWaitsThatFailAtOnce) {
  const Waiter waiter(20ms);
  std::vector<Stream> streams;
  for (std::uint32_t i = 0; i < 2; ++i) {
    streams.emplace_back(*waiter.device);
    const SignalWait wait{
        .word = &waiter.mapping.get().words[i], .count = 1 + i, .peer = static_cast<int>(i), .operation = i};
    waiter.device->wait(streams.back(), {&wait, 1}, waiter.control);
  }
  waiter.device->synchronize();
  ASSERT_EQ(waiter.control->failed, 2U);
  const WaitFailure& failure = waiter.control->failure;
  EXPECT_EQ(failure.expected, 1U + failure.operation);
  EXPECT_EQ(failure.peer, static_cast<int>(failure.operation));
}

std::string cores_name(const ::testing::TestParamInfo<Cores>& info) {
  return info.param == Cores::one ? "one_core" : "any_core";
}

INSTANTIATE_TEST_SUITE_P(Host, HostSignalTest, ::testing::Values(Cores::any, Cores::one), cores_name);

}  // namespace
}  // namespace tandem::testing

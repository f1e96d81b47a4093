// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/fetch.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <span>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"

#include "device/on_device.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t lent_bytes = 1'100'000;

/// A process that inverts its own copy of `data`, so that only it has these bytes, and runs until `end`.
class Lender {
 public:
  explicit Lender(std::vector<std::byte>& data) {
    int ready[2];
    if (::pipe(ready) != 0) throw std::bad_alloc();
    process_ = ::fork();
    if (process_ == 0) {
      for (std::byte& byte : data) byte ^= std::byte{0xFF};
      const bool told = ::write(ready[1], "r", 1) == 1;
      while (told) ::pause();
      ::_exit(1);
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;
  ~Lender() { end(); }

  void end() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  [[nodiscard]] std::int64_t process() const { return process_; }

 private:
  ::pid_t process_ = -1;
};

/// Empty if this process may read the lender's memory.
std::string why_not_readable(Device& device, const Lender& lender, const std::vector<std::byte>& data) {
  std::uint64_t value = 0;
  const std::string why = device.read_process(lender.process(), data.data(), &value, sizeof(value));
  return why.empty() ? why : "this system does not let a process read its child's memory: " + why;
}

class HostFetchTest : public OnDevice {
 protected:
  [[nodiscard]] WaitControl* control() { return &control_.words; }

  /// Fetches `to.size()` bytes from `offset` bytes after `address` in `process`.
  void fetch(std::int64_t process, const void* address, std::size_t offset, std::span<std::byte> to) {
    const Stream stream(device());
    Loan loan;
    device().lend(stream, &loan, address);
    device().fetch(stream,
                   {.dst = to.data(),
                    .loan = &loan,
                    .offset = offset,
                    .bytes = to.size(),
                    .process = process,
                    .peer = 3,
                    .operation = 7},
                   control());
    stream.synchronize();
  }
  /// Fetches from a process that has ended, of which this rank is told later, by `news`.
  void fetch_from_ended_process(const std::function<void()>& news) {
    std::vector<std::byte> data = random_bytes(64);
    Lender lender(data);
    const std::int64_t process = lender.process();
    lender.end();
    control()->timeout_ns = 60'000'000'000;
    std::thread herald([&] {
      std::this_thread::sleep_for(20ms);
      news();
    });
    std::vector<std::byte> got(64);
    fetch(process, data.data(), 0, got);
    EXPECT_EQ(std::atomic_ref(control()->abort).load(), 1U) << "the stream went on before anybody knew";
    herald.join();
  }

 private:
  struct {
    WaitControl words{
        .abort = 0, .departures = 0, .failed = 0, .timeout_ns = 200'000'000, .failure = {}, .cut_short = 0, .cut = {}};
    std::uint32_t departed = 0;
  } control_;
};

TEST_P(HostFetchTest, ReadsAnyBytesOfAnotherProcess) {
  std::vector<std::byte> data = random_bytes(lent_bytes);
  const Lender lender(data);
  if (const std::string why = why_not_readable(device(), lender, data); !why.empty()) GTEST_SKIP() << why;
  for (const std::size_t bytes : {1U, 2U, 63U, 4096U, 4097U, 65'536U, 1'000'003U}) {
    for (const std::size_t offset : {0U, 1U, 4095U, 70'000U}) {
      std::vector<std::byte> got(bytes);
      fetch(lender.process(), data.data(), offset, got);
      ASSERT_EQ(control()->failed, 0U);
      for (std::size_t i = 0; i < bytes; ++i) {
        ASSERT_EQ(got[i], data[offset + i] ^ std::byte{0xFF}) << i << " of " << bytes << " at " << offset;
      }
    }
  }
}

// Some CPUs copy slowly if the destination lies slightly further into its page than the source: checks the detour, too.
TEST_P(HostFetchTest, ReadsToAnyPlaceInAPage) {
  constexpr std::size_t page = 4096;
  std::vector<std::byte> data = random_bytes(lent_bytes);
  const Lender lender(data);
  if (const std::string why = why_not_readable(device(), lender, data); !why.empty()) GTEST_SKIP() << why;
  for (const std::size_t bytes : {2047U, 2048U, 32'767U, 32'768U, 32'769U, 100'001U}) {
    for (const std::size_t further : {0U, 1U, 16U, 31U, 32U, 4095U}) {
      std::vector<std::byte> around(bytes + 2 * page, std::byte{0xAA});
      const auto in_page = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % page; };
      const std::size_t before = (in_page(data.data()) + further + page - in_page(around.data())) % page;
      fetch(lender.process(), data.data(), 0, std::span(around).subspan(before, bytes));
      ASSERT_EQ(control()->failed, 0U);
      for (std::size_t i = 0; i < around.size(); ++i) {
        const bool read = i >= before && i < before + bytes;
        ASSERT_EQ(around[i], read ? data[i - before] ^ std::byte{0xFF} : std::byte{0xAA})
            << i << ": " << bytes << " from " << before;
      }
    }
  }
}

TEST_P(HostFetchTest, AFailedReadIsRecorded) {
  std::vector<std::byte> data = random_bytes(64);
  const Lender lender(data);
  if (const std::string why = why_not_readable(device(), lender, data); !why.empty()) GTEST_SKIP() << why;
  void* const nowhere = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::vector<std::byte> got(100);
  fetch(lender.process(), nowhere, 0, got);
  ::munmap(nowhere, 4096);
  ASSERT_EQ(control()->failed, 2U);
  EXPECT_EQ(control()->abort, 1U);
  EXPECT_EQ(control()->failure.error, EFAULT);
  EXPECT_EQ(control()->failure.peer, 3);
  EXPECT_EQ(control()->failure.operation, 7U);
  EXPECT_GE(control()->failure.waited_ns, control()->timeout_ns);
}

TEST_P(HostFetchTest, TheAbortThatFollowsAnEndedProcessIsWaitedFor) {
  fetch_from_ended_process([&] { std::atomic_ref(control()->abort).store(1); });
  EXPECT_EQ(control()->failed, 0U);
}

TEST_P(HostFetchTest, AProcessThatHasEndedInGoodOrderIsWaitedForNoMore) {
  fetch_from_ended_process([&] { mark_departed(control(), 3); });
  ASSERT_EQ(control()->failed, 2U);
  EXPECT_EQ(control()->failure.peer, 3);
  EXPECT_EQ(control()->failure.departed, 1U);
  EXPECT_LT(control()->failure.waited_ns, 10'000'000'000U);
}

TEST_P(HostFetchTest, ATimeoutThatIsSetMeanwhileCounts) {
  fetch_from_ended_process([&] { std::atomic_ref(control()->timeout_ns).store(1'000'000); });
  ASSERT_EQ(control()->failed, 2U);
  EXPECT_EQ(control()->failure.departed, 0U);
  EXPECT_LT(control()->failure.waited_ns, 10'000'000'000U);
}

TEST_P(HostFetchTest, NothingIsReadAfterAnAbort) {
  const std::vector<std::byte> data = random_bytes(64);
  control()->abort = 1;
  std::vector<std::byte> got(64);
  fetch(::getpid(), data.data(), 0, got);
  EXPECT_EQ(got, std::vector<std::byte>(64));
  EXPECT_EQ(control()->failed, 0U);
}

INSTANTIATE_TEST_SUITE_P(Host, HostFetchTest, ::testing::Values(DeviceType::host), type_name);

class FetchTest : public OnDevice {};

TEST_P(FetchTest, ADeviceReadsPrivateMemoryOrSaysThatItDoesNot) {
  std::uint64_t value = 0;
  if (on_host()) {
    std::vector<std::byte> data = random_bytes(64);
    const Lender lender(data);
    if (const std::string why = why_not_readable(device(), lender, data); !why.empty()) GTEST_SKIP() << why;
    EXPECT_EQ(device().read_process(lender.process(), nullptr, &value, 0), "");
    EXPECT_EQ(device().read_process(lender.process(), nullptr, &value, sizeof(value)), "Bad address");
    return;
  }
  expect_says(device().read_process(::getpid(), &value, &value, sizeof(value)), {"cuda:0", "private memory"});
  const Stream stream(device());
  Loan loan;
  expect_error<Unsupported>([&] { device().lend(stream, &loan, &value); }, {"cuda:0", "private memory"});
  expect_error<Unsupported>([&] { device().fetch(stream, {.loan = &loan}, nullptr); }, {"cuda:0", "private memory"});
}

TANDEM_ON_EACH_DEVICE(FetchTest);

}  // namespace
}  // namespace tandem::testing

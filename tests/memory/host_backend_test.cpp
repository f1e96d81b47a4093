// SPDX-License-Identifier: Apache-2.0
// What is specific to the host backend: it needs file descriptors, and allocates its pages immediately.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/memory/symmetric_memory.hpp"

#include "memory/slots.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/ranks.hpp"

namespace {

std::atomic<bool> signals_rain{false};
std::atomic<int> interrupted_calls{0};

}  // namespace

/// Replaces the C library's. On older kernels any signal interrupts it and undoes its work, so that under frequent
/// signals only a call for few pages succeeds; `signals_rain` emulates that.
extern "C" __attribute__((visibility("default"))) int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (signals_rain && bytes > 16 * 1024) {
    ++interrupted_calls;
    errno = EINTR;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, bytes));
}

namespace tandem {
namespace {

using testing::run_ranks;

TEST(HostBackend, TakesItsPagesWhateverSignalsCome) {
  run_ranks(1, [](World& world) {
    signals_rain = true;
    SymmetricMemory memory;
    EXPECT_NO_THROW(memory = SymmetricMemory::allocate(world.team(), 1'000'000));
    signals_rain = false;
    EXPECT_GT(interrupted_calls, 0) << "the library has called another fallocate";
    if (memory) memory.data()[999'999] = std::byte{1};
  });
}

TEST(HostBackend, APeersMemoryIsWrappedByNobodyElse) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ranks are threads here: one mapping is everybody's, and its owner's too";
#endif
  run_ranks(2, [](World& world) {
    auto memory = SymmetricMemory::allocate(world.team(), 64);
    memory.rendezvous();
    testing::expect_error<Unsupported>(
        [&] { static_cast<void>(SymmetricMemory::wrap(world.team(), memory.remote(1 - world.rank()), 64)); },
        {"64 bytes at ", "are a peer's memory", "each rank wraps its own"});
    EXPECT_NO_THROW(static_cast<void>(SymmetricMemory::wrap(world.team(), memory.data(), 64)));
    world.team().barrier();
  });
}

constexpr std::size_t some_huge_pages = std::size_t{64} << 20;

/// How many KiB of the mapping that begins at `data` are in huge pages; -1 if the system does not say.
long huge_kibibytes(const void* data) {
  std::ifstream maps("/proc/self/smaps");
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<std::uintptr_t>(data) << '-';
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with(begin.str())) here = true;
    if (constexpr std::string_view key = "ShmemPmdMapped:"; here && line.starts_with(key)) {
      return std::atol(line.c_str() + key.size());
    }
  }
  return -1;
}

/// `huge_kibibytes` of a plain memfd whose mapping requests huge pages before any page is allocated.
long huge_kibibytes_of_another() {
  const int fd = ::memfd_create("tandem-test", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(some_huge_pages)) != 0) return -1;
  void* const data = ::mmap(nullptr, some_huge_pages, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (data == MAP_FAILED) return -1;
  ::madvise(data, some_huge_pages, MADV_HUGEPAGE);
  const long kibibytes = ::madvise(data, some_huge_pages, MADV_POPULATE_WRITE) == 0 ? huge_kibibytes(data) : -1;
  ::munmap(data, some_huge_pages);
  return kibibytes;
}

TEST(HostBackend, TakesHugePagesWhereTheSystemGivesThem) {
  if (huge_kibibytes_of_another() <= 0) {
    GTEST_SKIP() << "no huge pages for shared memory here; /sys/kernel/mm/transparent_hugepage/shmem_enabled: "
                 << testing::contents_of("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  }
  run_ranks(1, [](World& world) {
    const auto memory = SymmetricMemory::allocate(world.team(), some_huge_pages);
    std::memset(memory.data(), 1, memory.bytes());  // allocated pages may not be mapped yet
    EXPECT_GT(huge_kibibytes(memory.data()), 0);
  });
}

TEST(HostBackend, AThousandAllocationsOutgrowTheSoftLimitOfDescriptors) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 4096) GTEST_SKIP() << "the hard limit of open descriptors is only " << limit.rlim_max;
  const std::string log = ::testing::TempDir() + "tandem-descriptors-" + std::to_string(::getpid()) + ".";
  Env env;
  env.log = LogLevel::info;
  env.log_file = log + "%r";
  const rlimit low{256, limit.rlim_max};
  run_ranks(2,
            [&low](World& world) {
              EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
              world.team().barrier();
              std::vector<SymmetricMemory> held;
              for (int i = 0; i < 1'000; ++i) {
                held.push_back(SymmetricMemory::allocate(world.team(), sizeof(i), {.channels = 1}));
                held.back().rendezvous();
                world.device().upload(held.back().remote(1 - world.rank()), &i, sizeof(i));
              }
              world.team().barrier();
              for (int i = 0; i < 1'000; ++i) {
                int found = -1;
                world.device().download(&found, held[static_cast<std::size_t>(i)].data(), sizeof(found));
                ASSERT_EQ(found, i);
              }
              world.team().barrier();
            },
            {.env = env});
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);  // if ranks are threads, they lowered this process's
  std::string text;
  for (const char* rank : {"0", "1"}) {
    text += testing::contents_of(log + rank);
    std::filesystem::remove(log + rank);
  }
  EXPECT_NE(text.find("was raised from 256 to 1024"), std::string::npos) << text;
}

TEST(HostBackend, TheErrorAtTheHardLimitOfDescriptorsNamesIt) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ranks are threads here, and what one lowers all later tests would have";
#elif defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan opens a pipe to see whether an object can be read, and finds no descriptor left for that";
#endif
  run_ranks(1, [](World& world) {
    const rlimit low{100, 100};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    std::vector<SymmetricMemory> held;
    const auto open_a_hundred_more = [&] {
      for (int i = 0; i < 100; ++i) held.push_back(SymmetricMemory::allocate(world.team(), 1));
    };
    testing::expect_error<OutOfMemory>(open_a_hundred_more,
                                       {"memfd_create", "Too many open files", "at most 100 (ulimit -Hn)"});
  });
}

/// Three ranks make the same collective call. Rank 1 has no descriptor left, and the others must be told.
void expect_to_tell(const std::function<void(World&)>& prepare, const std::function<void(World&)>& call) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ranks are threads here, and what one lowers all later tests would have";
#elif defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan opens a pipe to see whether an object can be read, and finds no descriptor left for that";
#endif
  run_ranks(3, [&](World& world) {
    prepare(world);
    const Team apart = world.team({0, 1, 2});  // the failure below does not affect this team
    apart.barrier();
    if (world.rank() == 1) {
      const rlimit low{3, 3};
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
      EXPECT_THROW(call(world), OutOfMemory);
      apart.barrier();  // this rank must not end its world before the others have been told
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    testing::expect_error<Aborted>([&] { call(world); }, {"rank 1 ", "Too many open files"});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, world.team().timeout() / 2);
    apart.barrier();
  });
}

TEST(HostBackend, ARankThatGetsNoMemoryInACollectiveCallTellsTheOthers) {
  expect_to_tell([](World&) {}, [](World& world) { Slots(world.team(), 64, 1, 0); });
}

TEST(HostBackend, ARankThatCannotShareItsMemoryTellsTheOthers) {
  SymmetricMemory memory;
  expect_to_tell([&](World& world) { memory = SymmetricMemory::allocate(world.team(), 64); },
                 [&](World&) {
                   SymmetricMemory last = std::move(memory);
                   last.rendezvous();
                 });
}

/// How many descriptors of shared memory this process has open: of its own segments, and in parcels that it received.
std::ptrdiff_t segments_held() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::count_if(begin(descriptors), end(descriptors), [](const auto& entry) {
    std::error_code gone;
    return std::filesystem::read_symlink(entry.path(), gone).string().starts_with("/memfd:tandem");
  });
}

// Otherwise each failed attempt would leak memory.
TEST(HostBackend, ARendezvousThatFailsLeavesNothingOfItsMemoryWithThePeers) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ranks are threads here, and have their descriptors in common";
#endif
  run_ranks(3, [](World& world) {
    const Team all = world.team({2, 1, 0});
    for (const bool early : {true, false}) {
      SCOPED_TRACE(early ? "an abort in front of the others' parcels" : "an abort behind them");
      all.barrier();
      const std::ptrdiff_t before = segments_held();
      {
        const Team team = world.team({0, 1, 2});
        all.barrier();  // an abort would end the construction of the team on a member that is still in it
        if (world.rank() == 1) {
          if (!early) std::this_thread::sleep_for(std::chrono::milliseconds(30));
          team.abort("no memory");
          EXPECT_THROW(team.check(), Aborted);
        } else {
          SymmetricMemory memory = SymmetricMemory::allocate(team, 1 << 20);
          EXPECT_THROW(memory.rendezvous(), Aborted);
        }
      }
      all.barrier();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // for parcels that arrive late
      all.collect();
      EXPECT_EQ(segments_held(), before);
    }
  });
}

}  // namespace
}  // namespace tandem

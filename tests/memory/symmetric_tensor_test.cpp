// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/symmetric_tensor.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/error.hpp"

#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/gpu_memory.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using testing::expect_error;
using testing::GpuMemoryWatch;
using testing::team_sizes;

class Tensor : public testing::OnEachDevice {};

std::vector<std::int32_t> numbers(std::size_t count, std::int32_t first) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<std::int32_t> read(Device& device, const TensorView& view) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(view.numel()));
  device.download(values.data(), view.data(), view.bytes());
  return values;
}

/// The number after a word in a file; 0 if there is none.
std::int64_t number_behind(const std::string& word, const std::filesystem::path& path) {
  std::ifstream file(path);
  for (std::string each; file >> each && each != word;) continue;
  std::int64_t number = 0;
  file >> number;
  return number;
}

/// How much memory can be allocated: free pages, and reclaimable ones of the page cache. A control group that this
/// process is in, a container's say, may have less left than the machine; its processes are killed if they take more.
std::int64_t available_kibibytes() {
  std::int64_t kibibytes = number_behind("MemAvailable:", "/proc/meminfo");
  const std::filesystem::path root("/sys/fs/cgroup");
  constexpr std::string_view version_2 = "0::/";
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with(version_2)) continue;
    for (std::filesystem::path group = root / line.substr(version_2.size());; group = group.parent_path()) {
      std::int64_t most = 0;  // or "max"
      std::int64_t taken = 0;
      if (std::ifstream(group / "memory.max") >> most && std::ifstream(group / "memory.current") >> taken) {
        taken -= number_behind("inactive_file", group / "memory.stat");
        kibibytes = std::min(kibibytes, (most - taken) / 1024);
      }
      if (group == root) break;
    }
  }
  return kibibytes;
}

const SymmetricMemory& memory_of(const SymmetricMemory& memory) { return memory; }
const SymmetricMemory& memory_of(const SymmetricTensor& tensor) { return tensor.memory(); }

TEST_P(Tensor, EveryRankReachesEveryOther) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      auto tensor = SymmetricTensor::empty(team, {7, 13}, i32);
      tensor.rendezvous();
      // Each rank writes into its successor's part, and reads what its predecessor wrote into its own.
      const int next = (team.rank() + 1) % team.size();
      const auto sent = numbers(91, 1000 * team.rank());
      world.device().upload(tensor.remote(next).data(), sent.data(), tensor.local().bytes());
      team.barrier();
      const int previous = (team.rank() + team.size() - 1) % team.size();
      EXPECT_EQ(read(world.device(), tensor.local()), numbers(91, 1000 * previous));
      EXPECT_EQ(tensor.remote(team.rank()).data(), tensor.local().data());
      team.barrier();
    });
  }
}

TEST_P(Tensor, TheContiguousViewShowsAllRanksInOrder) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      auto tensor = SymmetricTensor::empty(team, {3, 5}, i32);
      tensor.rendezvous();
      const auto own = numbers(15, 100 * team.rank());
      world.device().upload(tensor.local().data(), own.data(), tensor.local().bytes());
      team.barrier();
      const TensorView all = tensor.contiguous_view();
      ASSERT_EQ(all.sizes(), (Dims{team.size(), 3, 5}));
      for (int rank = 0; rank < team.size(); ++rank) {
        EXPECT_EQ(read(world.device(), all.narrow(0, rank, 1)), numbers(15, 100 * rank));
      }
      EXPECT_EQ(tensor.contiguous_view().data(), all.data());
      team.barrier();
    });
  }
}

TEST_P(Tensor, APartThatARankWrapsFromTheMiddleHasNoContiguousView) {
  on(3, [](World& world) {
    const Team& team = world.team();
    auto whole = SymmetricTensor::empty(team, {64}, i32);
    auto part =
        SymmetricTensor::wrap(team, whole.local().data_as<std::int32_t>() + (team.rank() == 1 ? 16 : 0), {8}, i32);
    part.rendezvous();
    expect_error<Unsupported>([&] { static_cast<void>(part.contiguous_view()); }, {"rank 1's begins 64 bytes"});
    team.barrier();
  });
}

TEST_P(Tensor, TheContiguousViewTakesAllocationsOfDifferentSizes) {
  on(3, [](World& world) {
    const Team& team = world.team();
    const auto mebibytes = static_cast<std::size_t>(4 * (1 + (team.rank() + 1) % 3));  // rank 1's is the largest
    const auto memory = SymmetricMemory::allocate(team, mebibytes << 20);
    auto tensor = SymmetricTensor::wrap(team, memory.data(), {15}, i32);
    tensor.rendezvous();
    const auto own = numbers(15, 100 * team.rank());
    world.device().upload(tensor.local().data(), own.data(), tensor.local().bytes());
    team.barrier();
    EXPECT_GE(tensor.memory().contiguous_stride(), std::size_t{12} << 20);
    const TensorView all = tensor.contiguous_view();
    for (int rank = 0; rank < team.size(); ++rank) {
      EXPECT_EQ(read(world.device(), all.narrow(0, rank, 1)), numbers(15, 100 * rank));
    }
    team.barrier();
  });
}

TEST_P(Tensor, TheDeviceHasATableOfPeerPointers) {
  on(3, [](World& world) {
    auto tensor = SymmetricTensor::empty(world.team(), {4}, i32);
    tensor.rendezvous();
    std::vector<void*> table(3);
    world.device().download(table.data(), tensor.peer_pointers(), 3 * sizeof(void*));
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(table[static_cast<std::size_t>(rank)], tensor.remote(rank).data());
    world.team().barrier();
  });
}

TEST_P(Tensor, ScalarsAndEmptyTensorsAreOrdinary) {
  on(2, [](World& world) {
    auto scalar = SymmetricTensor::empty(world.team(), {}, i32);
    scalar.rendezvous();
    EXPECT_EQ(scalar.local().numel(), 1);
    auto nothing = SymmetricTensor::empty(world.team(), {4, 0}, i32);
    nothing.rendezvous();
    EXPECT_EQ(nothing.local().numel(), 0);
    EXPECT_EQ(nothing.remote(1 - world.rank()).bytes(), 0U);
    EXPECT_EQ(nothing.contiguous_view().numel(), 0);
    world.team().barrier();
  });
}

TEST_P(Tensor, ThousandsOfAllocationsComeAndGo) {
  int count = 2'000;
  if (GetParam() == DeviceType::cuda) {  // each takes a granule of 2 MiB per rank, and the two may share a GPU
    const std::size_t most = GpuMemoryWatch::free_bytes() / (3 * (std::size_t{2} << 20));
    count = static_cast<int>(std::clamp<std::size_t>(most, 500, 2'000));
    std::printf("[   memory ] %d allocations\n", count);
  }
  on(2, [count](World& world) {
    std::vector<SymmetricTensor> tensors;
    for (int i = 0; i < count; ++i) {
      tensors.push_back(SymmetricTensor::empty(world.team(), {16}, i32, {.channels = 1}));
      tensors.back().rendezvous();
      const auto sent = numbers(16, i);
      world.device().upload(tensors.back().remote(1 - world.rank()).data(), sent.data(), 64);
    }
    world.team().barrier();
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(read(world.device(), tensors[static_cast<std::size_t>(i)].local()), numbers(16, i));
    }
    world.team().barrier();
  });
}

TEST_P(Tensor, ViewsAreOfTheSameMemoryAndRendezvous) {
  on(3, [](World& world) {
    const Team& team = world.team();
    auto tensor = SymmetricTensor::empty(team, {4, 6}, i32);
    const SymmetricTensor before = tensor.viewed_as({5}, i32);
    expect_error<InvalidArgument>([&] { static_cast<void>(before.remote(0)); }, {"rendezvous"});
    tensor.rendezvous();
    EXPECT_EQ(before.local().data(), tensor.local().data());
    world.device().upload(tensor.local().data(), numbers(24, 100 * world.rank()).data(), tensor.local().bytes());
    team.barrier();
    const SymmetricTensor halves = tensor.viewed_as({2, 3, 4}, f16);
    EXPECT_EQ(halves.sizes(), (Dims{2, 3, 4}));
    EXPECT_EQ(halves.dtype(), f16);
    EXPECT_EQ(halves.memory().id(), tensor.memory().id());
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(read(world.device(), before.remote(rank)), numbers(5, 100 * rank));
      EXPECT_EQ(halves.remote(rank).data(), tensor.remote(rank).data());
    }
    EXPECT_EQ(tensor.viewed_as({}, i32).local().numel(), 1);
    EXPECT_EQ(tensor.viewed_as({0, 7}, f64).local().numel(), 0);
    expect_error<InvalidArgument>([&] { static_cast<void>(tensor.viewed_as({7, 2}, i64)); },
                                  {"i64[7, 2]", "112 bytes", "i32[4, 6]", "96"});
    expect_error<InvalidArgument>([&] { static_cast<void>(tensor.viewed_as({-1}, i32)); }, {"-1"});
    expect_error<InvalidArgument>([] { static_cast<void>(SymmetricTensor().viewed_as({1}, i32)); }, {});
    team.barrier();
  });
}

TEST_P(Tensor, OffsetsDoNotEndAtFourGiB) {
  if (GetParam() == DeviceType::host && available_kibibytes() < (12 << 20)) {
    GTEST_SKIP() << "two ranks with 4.5 GiB each need 12 GiB of memory; " << available_kibibytes()
                 << " KiB are available";
  }
  on(2, [](World& world) {
    const std::int64_t count = (std::int64_t{9} << 30) / 2 / 4 + 5;  // 4.5 GiB
    auto tensor = SymmetricTensor::empty(world.team(), {count}, i32, {.channels = 1});
    tensor.rendezvous();
    const auto sent = numbers(5, 40 + world.rank());
    const TensorView tail = tensor.remote(1 - world.rank()).narrow(0, count - 5, 5);
    world.device().upload(tail.data(), sent.data(), tail.bytes());
    world.team().barrier();
    EXPECT_EQ(read(world.device(), tensor.local().narrow(0, count - 5, 5)), numbers(5, 40 + 1 - world.rank()));
    EXPECT_EQ(read(world.device(), tensor.contiguous_view().narrow(0, 1 - world.rank(), 1).narrow(1, count - 5, 5)),
              numbers(5, 40 + world.rank()));
    world.team().barrier();
  });
}

TEST_P(Tensor, ASecondTeamWrapsTheSameMemoryWithSignalsOfItsOwn) {
  on(3, [](World& world) {
    const Team all = world.team({0, 1, 2});
    auto first = SymmetricTensor::empty(all, {8}, i32);
    first.rendezvous();
    const Team pair = world.team({2, 0});
    if (pair) {
      auto second = SymmetricTensor::wrap(pair, first.local().data(), {8}, i32);
      second.rendezvous();
      EXPECT_EQ(second.local().data(), first.local().data());
      const auto sent = numbers(8, 10 * world.rank());
      world.device().upload(second.remote(1 - pair.rank()).data(), sent.data(), 32);
      pair.barrier();
      EXPECT_EQ(read(world.device(), first.local()), numbers(8, 10 * (2 - world.rank())));
      // The pair's signals do not count in the first team: there, rank 0's wait for rank 2 must time out (below).
      const Stream stream(world.device());
      second.signal_pad().put_signal(stream, 1 - pair.rank(), 0);
      second.signal_pad().wait_signal(stream, 1 - pair.rank(), 0);
      pair.synchronize(stream);
      pair.barrier();
    }
    world.team().barrier();  // not the failing team's own, which a rank may still be in when the team fails
    all.set_timeout(std::chrono::milliseconds(50));
    if (world.rank() == 0) {
      const Stream stream(world.device());
      first.signal_pad().wait_signal(stream, 2, 0);
      EXPECT_THROW(all.synchronize(stream), Timeout);
    }
    world.team().barrier();  // no rank leaves while another one waits
  });
}

TEST_P(Tensor, WhatIsWrappedEndsWithItsAllocationInFrontOfTheSignals) {
  on(2, [](World& world) {
    const Team& team = world.team();
    auto first = SymmetricTensor::empty(team, {100}, f16);
    first.rendezvous();
    auto* const begin = first.local().data_as<std::byte>();
    const auto wrap = [&](std::size_t offset, std::int64_t count) {
      return SymmetricTensor::wrap(team, begin + offset, {count}, f16);
    };
    EXPECT_NO_THROW(static_cast<void>(wrap(0, 100)));
    EXPECT_NO_THROW(static_cast<void>(wrap(50, 75)));
    EXPECT_NO_THROW(static_cast<void>(wrap(200, 0)));
    // f32 by mistake extends into the signal pad, which follows the data; the last one beyond the pages of both.
    expect_error<InvalidArgument>([&] { static_cast<void>(SymmetricTensor::wrap(team, begin, {100}, f32)); },
                                  {"400 bytes", "on rank", "has 200 from there on"});
    expect_error<InvalidArgument>([&] { static_cast<void>(wrap(50, 76)); }, {"152 bytes", "has 150 from there on"});
    expect_error<InvalidArgument>([&] { static_cast<void>(wrap(300, 1)); }, {"2 bytes", "has 0 from there on"});
    expect_error<InvalidArgument>([&] { static_cast<void>(wrap(0, std::int64_t{1} << 40)); },
                                  {"has 200 from there on"});
    // A wrapper keeps the memory of a tensor that is gone; signals no longer arrive there.
    auto kept = wrap(0, 100);
    first = SymmetricTensor();
    kept.rendezvous();
    EXPECT_EQ(kept.local().data(), begin);
  });
}

TEST_P(Tensor, SizesThatNoAddressSpaceHasSaySo) {
  on(1, [](World& world) {
    const std::size_t most = std::numeric_limits<std::size_t>::max();
    for (const std::size_t bytes : {most, most - 100, most - 3'000, most - (std::size_t{1} << 20), most / 2}) {
      expect_error<OutOfMemory>([&] { static_cast<void>(SymmetricMemory::allocate(world.team(), bytes)); },
                                {std::to_string(bytes) + " bytes", "on rank 0", "no address space"});
    }
  });
}

TEST_P(Tensor, MoreThanThereIsSaysOnWhichRank) {
  on(2, [](World& world) {
    const std::size_t bytes = std::size_t{1} << 46;
    expect_error<OutOfMemory>([&] { static_cast<void>(SymmetricMemory::allocate(world.team(), bytes)); },
                              {"on rank " + std::to_string(world.rank())});
    world.team().barrier();
  });
}

TEST_P(Tensor, StartsAgainAfterEverythingIsGone) {
  for (int again = 0; again < 3; ++again) {
    on(2, [](World& world) {
      for (int i = 0; i < 10; ++i) {
        auto tensor = SymmetricTensor::empty(world.team(), {1 << 20}, i32);
        tensor.rendezvous();
      }
    });
  }
}

TEST_P(Tensor, UseBeforeTheRendezvousIsAnError) {
  on(1, [](World& world) {
    const auto tensor = SymmetricTensor::empty(world.team(), {2}, i32);
    EXPECT_NO_THROW(static_cast<void>(tensor.local()));
    EXPECT_THROW(static_cast<void>(tensor.remote(0)), InvalidArgument);
    EXPECT_THROW(static_cast<void>(tensor.contiguous_view()), InvalidArgument);
    EXPECT_THROW(static_cast<void>(tensor.signal_pad()), InvalidArgument);
    EXPECT_THROW(static_cast<void>(SymmetricTensor().local()), InvalidArgument);
  });
}

TEST_P(Tensor, ASecondRendezvousIsAnError) {
  on(1, [](World& world) {
    auto tensor = SymmetricTensor::empty(world.team(), {2}, i32);
    tensor.rendezvous();
    EXPECT_THROW(tensor.rendezvous(), InvalidArgument);
  });
}

TEST_P(Tensor, RanksThatDisagreeAreBothNamed) {
  on(2, [](World& world) {
    auto tensor = SymmetricTensor::empty(world.team(), {4 + world.rank()}, i32);
    expect_error<InvalidArgument>([&] { tensor.rendezvous(); }, {"rank 0 (", ") has i32[4] in 16 bytes", "rank 1 (",
                                                                 ") has i32[5] in 20 bytes", "equal"});
    // Equal in bytes: as SymmetricMemory these would match.
    auto square = SymmetricTensor::empty(world.team(), {2 + 6 * world.rank(), 8 - 6 * world.rank()}, i32);
    expect_error<InvalidArgument>([&] { square.rendezvous(); }, {") has i32[2, 8]", ") has i32[8, 2]"});
    auto typed = SymmetricTensor::empty(world.team(), {4}, world.rank() == 0 ? i32 : f32);
    expect_error<InvalidArgument>([&] { typed.rendezvous(); }, {") has i32[4]", ") has f32[4]"});
    if (world.rank() == 0) {
      expect_error<InvalidArgument>([&] { tensor.rendezvous(); },
                                    {"different calls", "'rendezvous of a symmetric tensor'"});
    } else {
      auto memory = SymmetricMemory::allocate(world.team(), 16);
      expect_error<InvalidArgument>([&] { memory.rendezvous(); },
                                    {"different calls", "'rendezvous of symmetric memory'"});
    }
  });
}

TEST_P(Tensor, ARendezvousThatFailedIsNoHindranceToTheNext) {
  on(3, [](World& world) {
    const Team& team = world.team();
    const int next = (team.rank() + 1) % 3;
    // The last rank uses the other one, so that the first two compare equal before the difference is found.
    const auto check = [&](auto& first, auto& second) {
      EXPECT_THROW((team.rank() == 2 ? second : first).rendezvous(), InvalidArgument);
      for (auto* each : {&first, &second}) {
        EXPECT_FALSE(memory_of(*each).is_reachable());
        each->rendezvous();
        const SymmetricMemory& memory = memory_of(*each);
        world.device().upload(memory.remote(next), &next, sizeof(next));
        team.barrier();
        for (int rank = 0; rank < 3; ++rank) {
          for (const std::byte* part : {memory.remote(rank), memory.contiguous() + static_cast<std::size_t>(rank) *
                                                                                       memory.contiguous_stride()}) {
            int found = -1;
            world.device().download(&found, part, sizeof(found));
            EXPECT_EQ(found, rank);
          }
        }
      }
    };
    auto small = SymmetricMemory::allocate(team, 400);
    auto large = SymmetricMemory::allocate(team, 800);
    check(small, large);
    auto narrow = SymmetricTensor::empty(team, {4}, i32, {.channels = 1});
    auto wide = SymmetricTensor::empty(team, {4}, i32, {.channels = 2});
    check(narrow, wide);
    team.barrier();
  });
}

TEST_P(Tensor, ARankOutsideGetsAClearError) {
  on(2, [](World& world) {
    const Team other = world.team({1 - world.rank()});
    ASSERT_FALSE(other);
    EXPECT_THROW(static_cast<void>(SymmetricTensor::empty(other, {2}, i32)), InvalidArgument);
  });
}

TANDEM_ON_EACH_DEVICE(Tensor);

}  // namespace
}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
// SymmetricTensor::put and get: copies that one rank alone calls, ordered by signals.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/guarded_tensor.hpp"
#include "support/oracle.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::Bytes;
using testing::expect_error;
using testing::GuardedTensor;
using testing::key;
using testing::random_bytes;
using testing::team_sizes;

constexpr auto untouched = std::byte{0xA7};
constexpr std::uint32_t may_access = 0;  // channels
constexpr std::uint32_t has_come = 1;

/// What the team's rank `rank` sends in a round: every rank can compute it.
Bytes sent_by(int rank, int round, std::size_t bytes) {
  return random_bytes(key(testing::seed(), {static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(round)}),
                      bytes);
}
Bytes read(const Team& team, const TensorView& view) {
  Bytes bytes(view.bytes());
  team.device().download(bytes.data(), view.data(), bytes.size());
  return bytes;
}
void write(const Team& team, const TensorView& view, const Bytes& bytes) {
  ASSERT_EQ(bytes.size(), view.bytes());
  team.device().upload(view.data(), bytes.data(), bytes.size());
}
/// `size` untouched bytes, but for `part` at byte `at`.
Bytes only(std::size_t size, const Bytes& part, std::size_t at) {
  Bytes all(size, untouched);
  std::ranges::copy(part, all.begin() + static_cast<std::ptrdiff_t>(at));
  return all;
}
SymmetricTensor ready(const Team& team, const Dims& sizes, DType dtype) {
  auto tensor = SymmetricTensor::empty(team, sizes, dtype);
  tensor.rendezvous();
  return tensor;
}

/// A part of a tensor that is copied: where it begins, and its sizes.
struct Part {
  std::int64_t at;
  Dims sizes;
};
const std::vector<Part> parts_of_77 = {{0, {77}}, {0, {7, 11}}, {3, {5, 7}}, {76, {1}}, {13, {}}, {1, {3, 1, 5}}};

class OneSided : public testing::OnEachDevice {
 protected:
  /// Runs `body` on the world's team and, with more than one rank, on a team of all ranks in another order.
  static void on_teams(int ranks, const std::function<void(const Team&)>& body) {
    on(ranks, [&](World& world) {
      body(world.team());
      if (world.size() == 1) return;
      std::vector<int> members;
      for (int i = 0; i < world.size(); ++i) members.push_back((world.size() - i) % world.size());  // 0, 4, 3, 2, 1
      body(world.team(members));
    });
  }
};

TEST_P(OneSided, WhatIsPutIsThereOnceTheSignalHasCome) {
  for (const int ranks : team_sizes()) {
    on_teams(ranks, [](const Team& team) {
      for (const DType dtype : {u8, bf16, f32, i64}) {
        const SymmetricTensor inbox = ready(team, {7, 11}, dtype);
        const SignalPad& pad = inbox.signal_pad();
        const int next = (team.rank() + 1) % team.size();
        const int previous = (team.rank() + team.size() - 1) % team.size();
        const Stream stream(team.device());
        int round = 0;
        for (const Part& part : parts_of_77) {
          GuardedTensor block(team, part.sizes, dtype);
          block.set(sent_by(team.rank(), round, block.view().bytes()));
          team.device().fill(stream, inbox.local().data(), untouched, inbox.local().bytes());
          pad.put_signal(stream, previous, may_access);
          pad.wait_signal(stream, next, may_access);
          inbox.put(stream, next, block.view(), part.at);
          pad.put_signal(stream, next, has_come);
          pad.wait_signal(stream, previous, has_come);
          team.synchronize(stream);
          const std::size_t at = static_cast<std::size_t>(part.at) * size_of(dtype);
          EXPECT_EQ(read(team, inbox.local()),
                    only(inbox.local().bytes(), sent_by(previous, round, block.view().bytes()), at))
              << name(dtype) << ", round " << round;
          ++round;
        }
      }
      team.barrier();
    });
  }
}

TEST_P(OneSided, WhatIsGotIsWhatThePeerHadSignaled) {
  for (const int ranks : team_sizes()) {
    on_teams(ranks, [](const Team& team) {
      for (const DType dtype : {u8, bf16, f32, i64}) {
        const SymmetricTensor outbox = ready(team, {77}, dtype);
        const SignalPad& pad = outbox.signal_pad();
        const int next = (team.rank() + 1) % team.size();
        const int previous = (team.rank() + team.size() - 1) % team.size();
        const Stream stream(team.device());
        int round = 0;
        for (const Part& part : parts_of_77) {
          const std::size_t bytes = outbox.local().bytes();
          write(team, outbox.local(), sent_by(team.rank(), round, bytes));
          GuardedTensor got(team, part.sizes, dtype);  // poisoned
          pad.put_signal(stream, previous, may_access);
          pad.wait_signal(stream, next, may_access);
          outbox.get(stream, next, got.view(), part.at);
          pad.put_signal(stream, next, has_come);  // it has been read
          pad.wait_signal(stream, previous, has_come);
          team.synchronize(stream);
          const Bytes all = sent_by(next, round, bytes);
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>(part.at) * static_cast<int>(size_of(dtype));
          EXPECT_EQ(got.get(), Bytes(begin, begin + static_cast<std::ptrdiff_t>(got.view().bytes())))
              << name(dtype) << ", round " << round;
          ++round;
        }
      }
      team.barrier();
    });
  }
}

// Nothing but signals orders the rounds of the ring: no rank synchronizes before the last one.
TEST_P(OneSided, ARingOfPutsNeedsNoHost) {
  for (const int ranks : team_sizes()) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      constexpr int rounds = 20;
      constexpr std::int64_t count = 10'007;
      const SymmetricTensor inbox = ready(team, {count}, i32);
      const SignalPad& pad = inbox.signal_pad();
      const int next = (team.rank() + 1) % team.size();
      const int previous = (team.rank() + team.size() - 1) % team.size();
      std::vector<std::unique_ptr<GuardedTensor>> blocks;
      std::vector<std::unique_ptr<GuardedTensor>> copies;
      for (int round = 0; round < rounds; ++round) {
        blocks.push_back(std::make_unique<GuardedTensor>(team, Dims{count}, i32));
        blocks.back()->set(sent_by(team.rank(), round, blocks.back()->view().bytes()));
        copies.push_back(std::make_unique<GuardedTensor>(team, Dims{count}, i32));
      }
      const Stream stream(team.device());
      for (int round = 0; round < rounds; ++round) {
        const auto i = static_cast<std::size_t>(round);
        pad.put_signal(stream, previous, may_access);
        pad.wait_signal(stream, next, may_access);
        inbox.put(stream, next, blocks[i]->view());
        pad.put_signal(stream, next, has_come);
        pad.wait_signal(stream, previous, has_come);
        inbox.get(stream, team.rank(), copies[i]->view());  // from this rank itself
        team.device().fill(stream, inbox.local().data(), untouched, inbox.local().bytes());
      }
      team.synchronize(stream);
      for (int round = 0; round < rounds; ++round) {
        const GuardedTensor& copy = *copies[static_cast<std::size_t>(round)];
        EXPECT_EQ(copy.get(), sent_by(previous, round, copy.view().bytes())) << "round " << round;
      }
      team.barrier();
    });
  }
}

TEST_P(OneSided, WhatIsWrongIsToldBeforeAnythingIsCopied) {
  on(3, [](World& world) {
    const Team team = world.team({2, 0, 1});
    auto tensor = SymmetricTensor::empty(team, {7, 11}, f32);
    const Buffer memory(team.shared_device(), 1000);
    const TensorView four = memory.view({4}, f32);
    const Stream stream(team.device());
    const auto refused = [&](int rank, const TensorView& local, std::int64_t at, const std::vector<std::string>& says) {
      for (const bool puts : {true, false}) {
        const std::string text = testing::error_of<InvalidArgument>(
            [&] { puts ? tensor.put(stream, rank, local, at) : tensor.get(stream, rank, local, at); });
        for (const std::string& part : says) EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
      }
    };
    refused(0, four, 0, {"before its rendezvous"});
    tensor.rendezvous();
    write(team, tensor.local(), Bytes(tensor.local().bytes(), untouched));
    team.barrier();
    const std::string me = "rank " + std::to_string(team.rank()) + " of 3";
    for (const int rank : {-1, 3, 100}) refused(rank, four, 0, {"rank " + std::to_string(rank), me, "0 to 2"});
    const int peer = (team.rank() + 1) % 3;
    refused(peer, memory.view({4}, i32), 0, {"i32[4]", me, "elements of f32"});
    const DeviceId here = team.device().id();
    refused(peer, TensorView(memory.data(), {4}, f32, {here.type, here.index + 1}), 0, {"allowed", to_string(here)});
    refused(peer, TensorView(memory.data(), {4, 2}, {3, 1}, f32, here), 0, {"contiguous", "[3, 1]"});
    for (const std::int64_t at : {std::int64_t{-1}, std::int64_t{74}, INT64_MAX, INT64_MIN}) {
      refused(peer, four, at, {"f32[4]", "from element " + std::to_string(at) + " on", "f32[7, 11] has 77"});
    }
    refused(peer, memory.view({78}, f32), 0, {"f32[78]", "element 0 on", "has 77"});
    refused(peer, memory.view({0}, f32), 78, {"f32[0]", "element 78 on"});
    refused(peer, memory.view({0}, i32), 0, {"elements of f32"});  // checked, though there is nothing to copy
    refused(team.rank(), tensor.local().narrow(0, 0, 1), 5, {"overlaps"});
    refused(peer, tensor.remote(peer), 0, {"overlaps"});
    for (const std::int64_t at : {0, 77}) {
      tensor.put(stream, peer, memory.view({0}, f32), at);
      tensor.get(stream, peer, memory.view({0, 5}, f32), at);
    }
    team.synchronize(stream);
    team.barrier();
    EXPECT_EQ(read(team, tensor.local()), Bytes(tensor.local().bytes(), untouched));
    EXPECT_THROW(SymmetricTensor().put(stream, 0, four), InvalidArgument);
    EXPECT_THROW(SymmetricTensor().get(stream, 0, four), InvalidArgument);
    team.barrier();
  });
}

TEST_P(OneSided, ATensorWithoutElementsTakesNone) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const SymmetricTensor nothing = ready(team, {4, 0}, f32);
    const Stream stream(team.device());
    nothing.put(stream, 1 - team.rank(), nothing.local());
    nothing.get(stream, 1 - team.rank(), nothing.local());
    expect_error<InvalidArgument>([&] { nothing.put(stream, 0, Buffer(team.shared_device(), 4).view({}, f32)); },
                                  {"f32[] on", "has 0"});
    team.synchronize(stream);
    team.barrier();
  });
}

// Parts of one tensor move within it, as long as they do not overlap.
TEST_P(OneSided, ARankCopiesWithinItsOwnTensor) {
  on(1, [](World& world) {
    const Team& team = world.team();
    const SymmetricTensor tensor = ready(team, {10}, u8);
    write(team, tensor.local(), {10, untouched});
    const Bytes sent = sent_by(0, 0, 5);
    write(team, tensor.local().narrow(0, 0, 5), sent);
    const Stream stream(team.device());
    tensor.put(stream, 0, tensor.local().narrow(0, 0, 5), 5);
    team.synchronize(stream);
    EXPECT_EQ(read(team, tensor.local().narrow(0, 5, 5)), sent);
  });
}

TEST(OneSidedOnALink, CopiesToAndFromPeersCrossIt) {
  constexpr std::int64_t count = 1'000'000;
  constexpr auto crossing = 105ms;  // 5 ms, and 1 MB at 10 MB/s
  testing::RankOptions options;
  options.env.link = LinkOptions{.latency = 5ms, .bytes_per_second = 1e7};
  testing::run_ranks(
      2,
      [&](World& world) {
        const Team& team = world.team();
        const SymmetricTensor tensor = ready(team, {count}, u8);
        const Buffer memory(team.shared_device(), count);
        const TensorView block = memory.view({count}, u8);
        const Stream stream(team.device());
        const auto takes = [&](const auto& copy) {
          const auto begin = std::chrono::steady_clock::now();
          copy();
          team.synchronize(stream);
          return std::chrono::steady_clock::now() - begin;
        };
        const int peer = 1 - team.rank();
        EXPECT_GE(takes([&] { tensor.put(stream, peer, block); }), crossing);
        EXPECT_GE(takes([&] { tensor.get(stream, peer, block); }), crossing);
        team.barrier();                                         // from here on each rank has its tensor to itself
        auto own = std::chrono::steady_clock::duration::max();  // other load may delay some attempts
        for (int i = 0; i < 5; ++i) {
          own = std::min(own, takes([&] { tensor.put(stream, team.rank(), block); }));
          own = std::min(own, takes([&] { tensor.get(stream, team.rank(), block); }));
        }
        EXPECT_LT(own, crossing);
        team.barrier();
      },
      options);
}

TANDEM_ON_EACH_DEVICE(OneSided);

}  // namespace
}  // namespace tandem

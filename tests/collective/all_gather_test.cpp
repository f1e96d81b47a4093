// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/all_gather.hpp"

#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "collective/support.hpp"

namespace tandem::testing {
namespace {

class AllGatherTest : public CollectiveTest {};

std::vector<Shape> shapes(std::int64_t n) {
  return {{0, 4}, {n, 1}, {1, 5}, {7 * n, 3}, {n + 1, 13}, {2 * n - 1, 1}, {3 * n - 2, 257}, {4096 * n, 1}};
}

/// Checks every byte of the result of every form of one gather, on this rank. `plain` runs the forms with plain views.
void check_all_forms(const Team& team, AllGather& gather, AllGather& plain, const Shape& shape, DType dtype,
                     std::uint64_t id) {
  const Stream stream(team.device());
  const int n = team.size();
  const Dims sizes{shape.rows, shape.columns};
  const Shard my_rows = shard_of(shape.rows, n, team.rank());
  const auto bytes_of = [&](std::int64_t rows) {
    return static_cast<std::size_t>(rows * shape.columns) * size_of(dtype);
  };
  const auto data = [&](int rank) { return moved_bytes(id, rank, bytes_of(shard_of(shape.rows, n, rank).count)); };
  Bytes expected;
  for (int rank = 0; rank < n; ++rank) {
    const Bytes shard = data(rank);
    expected.insert(expected.end(), shard.begin(), shard.end());
  }
  const Bytes mine = data(team.rank());
  const std::string what = describe_case(team, sizes, dtype);

  SymmetricTensor gathered = symmetric(team, sizes, dtype);
  poison(gathered);
  team.device().upload(gathered.memory().data() + bytes_of(my_rows.begin), mine.data(), mine.size());
  gather(gathered, stream);
  team.synchronize(stream);
  expect_bytes(get(gathered), expected, "in place, " + what);

  for (const std::int64_t offset : {0, 1, 3}) {
    GuardedTensor shard(team, {my_rows.count, shape.columns}, dtype, offset);
    shard.set(mine);
    GuardedTensor out(team, sizes, dtype, 3 - offset);
    plain(shard.view(), out.view(), stream);
    // Later work on the stream may overwrite the input: a peer that still reads it must not see that.
    team.device().fill(stream, shard.view().data(), std::byte{0x7F}, mine.size());
    team.synchronize(stream);
    expect_bytes(out.get(), expected, "plain, " + what);

    shard.set(mine);
    poison(gathered);
    gather(shard.view(), gathered, stream);
    team.synchronize(stream);
    expect_bytes(get(gathered), expected, "plain to symmetric, " + what);
    expect_bytes(shard.get(), mine, "input, " + what);
  }

  GuardedTensor whole(team, sizes, dtype, 1);
  const TensorView own = whole.view().narrow(0, my_rows.begin, my_rows.count);
  team.device().upload(own.data(), mine.data(), mine.size());
  plain(own, whole.view(), stream);
  team.synchronize(stream);
  expect_bytes(whole.get(), expected, "plain in place, " + what);
}

TEST_P(AllGatherTest, EveryFormDtypeAndSize) {
  run([](World& world) {
    const Team& team = world.team();
    std::uint64_t id = 0;
    for (const DType dtype : moved_dtypes(team)) {
      AllGather gather(team, {.count = 8192, .dtype = dtype}, {.piece_bytes = 1000});
      for (const CollectiveOptions& options : plain_or_mail_options(team, 1000)) {
        AllGather plain(team, {.count = 8192, .dtype = dtype}, options);
        AllGather& symmetric = takes_all_tensors(options) ? plain : gather;
        for (const Shape& shape : shapes(team.size())) check_all_forms(team, symmetric, plain, shape, dtype, ++id);
      }
      if (!team.device().meets()) continue;
      AllGather direct(team, {.count = 8192, .dtype = dtype}, {.algorithm = "direct_kernel"});
      for (const Shape& shape : shapes(team.size())) check_all_forms(team, direct, gather, shape, dtype, ++id);
    }
  });
}

TEST_P(AllGatherTest, WithoutMultiprocessorsItIsRightAndSaysSo) {
  run([](World& world) {
    const Team& team = world.team();
    const bool has_kernel = team.device().exchanges_mail() && team.size() > 1;
    const AllGather free(team, {.count = 1000, .dtype = i32});
    EXPECT_EQ(free.describe().find("into plain views: one_kernel\n") != std::string::npos, has_kernel)
        << free.describe();
    AllGather gather(team, {.count = 1000, .dtype = i32}, {.sms = 0});
    EXPECT_NE(gather.describe().find("on at most 0 SMs"), std::string::npos) << gather.describe();
    EXPECT_EQ(gather.describe().find("_kernel"), std::string::npos) << gather.describe();
    check_all_forms(team, gather, gather, {.rows = team.size(), .columns = 999}, i32, 8000);
  });
}

TEST_P(AllGatherTest, SaysWhichAlgorithmARunTakes) {
  run([](World& world) {
    const Team& team = world.team();
    for (const std::string_view asked : {"push", "staged", "mail", "one_kernel", "direct_kernel", "fetch"}) {
      if (asked == "mail" && !team.device().sends_letters()) continue;
      if (asked == "one_kernel" && !team.device().exchanges_mail()) continue;
      if (asked == "direct_kernel" && !team.device().meets()) continue;
      if (asked == "fetch" && !can_fetch(team)) continue;
      const AllGather gather(team, {.count = 1000}, {.algorithm = std::string(asked)});
      const bool plain = asked == "staged" || asked == "fetch";
      EXPECT_EQ(gather.algorithm(1000, plain ? Tensors::plain : Tensors::symmetric_output), asked);
    }
    const AllGather gather(team, {.count = 4 << 20});
    const std::string_view smallest = gather.algorithm(4, Tensors::symmetric_output);
    if (team.device().sends_letters()) {
      EXPECT_EQ(smallest, "mail");
      // Between two ranks, a letter may have 2 KiB.
      EXPECT_EQ(gather.algorithm(512, Tensors::symmetric_output) == "mail", team.size() == 2);
      EXPECT_NE(gather.algorithm(513, Tensors::symmetric_output), "mail");
    } else {
      EXPECT_EQ(smallest, team.size() == 1 ? "push" : "one_kernel");
    }
    // With two ranks the direct kernel wins from a smaller size on than with more.
    if (team.device().meets() && team.size() > 1) {
      constexpr std::int64_t pack = 16 / sizeof(float);
      const std::int64_t sent = std::int64_t{team.size() == 2 ? 768 : 2048} << 10;
      const std::int64_t mailed = sent / 16 / (team.size() - 1) * pack;
      EXPECT_EQ(gather.algorithm(mailed, Tensors::symmetric_output), "one_kernel");
      EXPECT_EQ(gather.algorithm(mailed + pack, Tensors::symmetric_output), "direct_kernel");
    }
    // Shards whose size does not fit vector accesses are left to copies.
    EXPECT_EQ(gather.algorithm((4 << 20) - 1, Tensors::symmetric_output), "push");
  });
}

TEST_P(AllGatherTest, PushesTinyAndEmptyShards) {
  run([](World& world) {
    const Team& team = world.team();
    const int n = team.size();
    // "auto" would send shards of these sizes through staging memory.
    AllGather gather(team, {.count = 8, .dtype = i32}, {.algorithm = "push"});
    const Stream stream(team.device());
    for (int rows = 0; rows <= 2 * n; ++rows) {
      const Shard mine = shard_of(rows, n, team.rank());
      const Bytes expected = moved_bytes(static_cast<std::uint64_t>(rows), 0, static_cast<std::size_t>(rows) * 4);
      const auto own = std::span(expected).subspan(static_cast<std::size_t>(mine.begin) * 4,
                                                   static_cast<std::size_t>(mine.count) * 4);
      GuardedTensor shard(team, {mine.count}, i32, 1);
      shard.set(own);
      SymmetricTensor gathered = symmetric(team, {rows}, i32);
      poison(gathered);
      gather(shard.view(), gathered, stream);
      team.synchronize(stream);
      expect_bytes(get(gathered), expected, describe_case(team, {rows}, i32));
    }
  });
}

TEST_P(AllGatherTest, PushesLongShardsFromElsewhere) {
  run([](World& world) {
    const Team& team = world.team();
    const std::int64_t count = (std::int64_t{4} << 20) + 5;  // bytes: their transfer outlasts the start of a copy
    const auto shard_bytes = static_cast<std::size_t>(count);
    AllGather gather(team, {.count = count, .dtype = u8}, {.algorithm = "push"});
    SymmetricTensor gathered = symmetric(team, {team.size() * count}, u8);
    GuardedTensor shard(team, {count}, u8, 1);
    const Stream stream(team.device());
    Draws draws(91);
    for (std::uint64_t round = 0; round < 3; ++round) {
      Bytes expected;
      for (int rank = 0; rank < team.size(); ++rank) {
        const Bytes theirs = moved_bytes(round, rank, shard_bytes);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      poison(gathered);
      shard.set(moved_bytes(round, team.rank(), shard_bytes));
      delay_somebody(team, stream, draws, 2000);
      gather(shard.view(), gathered, stream);
      // In stream order after all copies, including the one into this rank's own tensor.
      team.device().fill(stream, shard.view().data(), std::byte{0x7F}, shard_bytes);
      team.synchronize(stream);
      expect_bytes(get(gathered), expected, "round " + std::to_string(round));
    }
  });
}

TEST_P(AllGatherTest, SubTeamsInOddOrders) {
  const int n = ranks();
  run([n](World& world) {
    for (const auto& ranks : odd_orders(n)) {
      const Team team = world.team(ranks);
      if (!team) continue;
      AllGather gather(team, {.count = 4096, .dtype = bf16}, {.piece_bytes = 512});
      std::uint64_t id = 100 * ranks.size();
      for (const CollectiveOptions& options : plain_or_mail_options(team, 512)) {
        AllGather plain(team, {.count = 4096, .dtype = bf16}, options);
        AllGather& symmetric = takes_all_tensors(options) ? plain : gather;
        for (const std::int64_t columns : {33, 1203}) {
          check_all_forms(team, symmetric, plain, {3 * team.size() - 1, columns}, bf16, ++id);
        }
      }
    }
  });
}

TEST_P(AllGatherTest, AConsumerWaitsForSingleShards) {
  run([](World& world) {
    const Team& team = world.team();
    const int n = team.size();
    const std::int64_t count = 5000;
    const std::size_t shard_bytes = static_cast<std::size_t>(count) * size_of(i32);
    const auto place = [&](int rank) { return static_cast<std::size_t>(rank) * shard_bytes; };
    AllGather gather(team, {.count = count, .dtype = i32});
    SymmetricTensor gathered = symmetric(team, {n * count}, i32);
    GuardedTensor shard(team, {count}, i32);
    GuardedTensor copy(team, {n * count}, i32);
    const Stream comm(team.device(), StreamPriority::high);
    const Stream consumer(team.device());
    Event consumed(team.device());
    Draws draws(77);
    for (std::uint64_t round = 0; round < 20; ++round) {
      const auto data = [&](int rank) { return moved_bytes(round, rank, shard_bytes); };
      const bool in_place = round % 2 == 0;
      poison(gathered);  // no peer may write it before this rank starts
      copy.poison();
      shard.set(data(team.rank()));
      delay_somebody(team, comm, draws, 2000);
      if (in_place) {
        // In stream order before `start`: a wait for this shard covers this copy, too.
        team.device().copy(
            comm,
            {.dst = gathered.memory().data() + place(team.rank()), .src = shard.view().data(), .bytes = shard_bytes});
        gather.start(gathered, comm);
      } else {
        gather.start(shard.view(), gathered, comm);
      }
      for (int step = 0; step < n; ++step) {
        const int rank = (team.rank() + step) % n;
        gather.wait_shard(rank, consumer);
        team.device().copy(consumer, {.dst = copy.view().data_as<std::byte>() + place(rank),
                                      .src = gathered.memory().data() + place(rank),
                                      .bytes = shard_bytes});
      }
      order_after(comm, consumer, consumed);
      gather.finish(comm);
      team.synchronize(comm);
      Bytes expected;
      for (int rank = 0; rank < n; ++rank) {
        const Bytes theirs = data(rank);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      expect_bytes(copy.get(), expected, "consumed in round " + std::to_string(round));
    }
  });
}

// The steps wait for the same signals as the run before, whose own waits may still be queued on the stream of `start`.
TEST_P(AllGatherTest, StepsOnAnotherStreamComeBehindTheRunBefore) {
  run([](World& world) {
    const Team& team = world.team();
    const std::int64_t count = 700;
    const std::size_t shard_bytes = static_cast<std::size_t>(count) * size_of(i32);
    AllGather gather(team, {.count = count, .dtype = i32}, {.algorithm = "push"});
    const SymmetricTensor gathered = symmetric(team, {team.size() * count}, i32);
    GuardedTensor before(team, {count}, i32);
    GuardedTensor shard(team, {count}, i32);
    GuardedTensor copy(team, {team.size() * count}, i32);
    const Stream pushing(team.device());
    const Stream consumer(team.device());
    Event consumed(team.device());
    Draws draws(79);
    for (std::uint64_t round = 0; round < 20; ++round) {
      const auto data = [&](std::uint64_t run, int rank) { return moved_bytes(2 * round + run, rank, shard_bytes); };
      poison(gathered);
      copy.poison();
      before.set(data(0, team.rank()));
      shard.set(data(1, team.rank()));
      delay_somebody(team, pushing, draws, 2000);
      gather(before.view(), gathered, pushing);
      gather.start(shard.view(), gathered, pushing);
      if (round % 2 == 0) gather.wait_shard((team.rank() + 1) % team.size(), consumer);
      gather.finish(consumer);
      const TensorView& all = gathered.local();
      team.device().copy(consumer, {.dst = copy.view().data(), .src = all.data(), .bytes = all.bytes()});
      order_after(pushing, consumer, consumed);
      team.synchronize(pushing);
      Bytes expected;
      for (int rank = 0; rank < team.size(); ++rank) {
        const Bytes theirs = data(1, rank);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      expect_bytes(copy.get(), expected, "gathered in round " + std::to_string(round));
    }
  });
}

// The pushes are queued on the stream of `start`; work after `finish`, on any stream, may overwrite what they read.
TEST_P(AllGatherTest, WhatStartWasGivenMayBeChangedBehindFinish) {
  run([](World& world) {
    const Team& team = world.team();
    const std::int64_t count = 300'000;
    const std::size_t shard_bytes = static_cast<std::size_t>(count) * size_of(i32);
    const auto place = [&](int rank) { return static_cast<std::size_t>(rank) * shard_bytes; };
    AllGather gather(team, {.count = count, .dtype = i32}, {.algorithm = "push"});
    SymmetricTensor gathered = symmetric(team, {team.size() * count}, i32);
    const Stream pushing(team.device());
    const Stream other(team.device());
    for (std::uint64_t round = 0; round < 10; ++round) {
      const auto data = [&](int rank) { return moved_bytes(round, rank, shard_bytes); };
      std::byte* const own = gathered.memory().data() + place(team.rank());
      team.device().upload(own, data(team.rank()).data(), shard_bytes);
      team.barrier();
      gather.start(gathered, pushing);
      gather.finish(other);
      team.device().fill(other, own, std::byte{0x5A}, shard_bytes);
      team.synchronize(other);
      team.barrier();
      for (int rank = 0; rank < team.size(); ++rank) {
        if (rank == team.rank()) continue;
        Bytes got(shard_bytes);
        team.device().download(got.data(), gathered.memory().data() + place(rank), shard_bytes);
        expect_bytes(got, data(rank), "the shard of rank " + std::to_string(rank));
      }
      team.barrier();
    }
  });
}

TEST_P(AllGatherTest, AnOpenRunOfATeamThatFailedIsNotTheCallersMistake) {
  run([](World& world) {
    std::vector<int> ranks(static_cast<std::size_t>(world.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    const Team team = world.team(ranks);
    AllGather gather(team, {.count = 7, .dtype = i32}, {.algorithm = "push"});
    const SymmetricTensor gathered = symmetric(team, {team.size() * 7}, i32);
    const Stream stream(team.device());
    gather.start(gathered, stream);
    EXPECT_THROW(gather.start(gathered, stream), InvalidArgument);
    world.team().barrier();
    team.abort("no more");
    EXPECT_THROW(gather.start(gathered, stream), Aborted);
    EXPECT_THROW(gather(gathered, stream), Aborted);
  });
}

TANDEM_COLLECTIVE_SUITE(AllGatherTest);

}  // namespace
}  // namespace tandem::testing

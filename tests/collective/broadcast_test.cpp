// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/broadcast.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collective/support.hpp"
#include "collective/tuning.hpp"

namespace tandem::testing {
namespace {

class BroadcastTest : public CollectiveTest {};

const CollectiveOptions by_direct_kernel{.algorithm = "direct_kernel"};

void check_symmetric(const Team& team, Broadcast& broadcast, std::int64_t count, DType dtype, int root,
                     std::uint64_t id) {
  const Stream stream(team.device());
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  const Bytes expected = moved_bytes(id, root, bytes);
  const std::string what = describe_case(team, {count}, dtype) + ", root " + std::to_string(root);
  SymmetricTensor tensor = symmetric(team, {count}, dtype);
  if (team.rank() == root) {
    set(tensor, expected);
  } else {
    poison(tensor);
  }
  broadcast(tensor, root, stream);
  const Bytes other = moved_bytes(id + 1, root, bytes);
  GuardedTensor input(team, {count}, dtype, 1);
  if (team.rank() == root) {
    // Later work on the root's stream may overwrite its tensor: a peer that still reads it must not see that.
    GuardedTensor seen(team, {count}, dtype);
    team.device().copy(stream, {.dst = seen.view().data(), .src = tensor.memory().data(), .bytes = bytes});
    team.device().fill(stream, tensor.memory().data(), std::byte{0x7F}, bytes);
    team.synchronize(stream);
    expect_bytes(seen.get(), expected, "root, " + what);
    input.set(other);
  } else {
    team.synchronize(stream);
    expect_bytes(get(tensor), expected, "symmetric, " + what);
    poison(tensor);
  }
  broadcast(input.view(), tensor, root, stream);
  team.synchronize(stream);
  expect_bytes(get(tensor), other, "plain to symmetric, " + what);
}

void check_plain(const Team& team, Broadcast& broadcast, std::int64_t count, DType dtype, int root, std::uint64_t id,
                 std::int64_t offset = 1) {
  const Stream stream(team.device());
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  const Bytes expected = moved_bytes(id, root, bytes);
  const std::string what = describe_case(team, {count}, dtype) + ", root " + std::to_string(root);
  GuardedTensor input(team, {count}, dtype, offset);
  GuardedTensor out(team, {count}, dtype, 2 * offset);
  if (team.rank() == root) input.set(expected);
  broadcast(input.view(), out.view(), root, stream);
  broadcast(input.view(), root, stream);
  // Later work on the stream may overwrite the root's tensor: a peer that still reads it must not see that.
  GuardedTensor seen(team, {count}, dtype);
  team.device().copy(stream, {.dst = seen.view().data(), .src = input.view().data(), .bytes = bytes});
  team.device().fill(stream, input.view().data(), std::byte{0x7F}, bytes);
  team.synchronize(stream);
  expect_bytes(out.get(), expected, "plain, " + what);
  expect_bytes(seen.get(), expected, "plain in place, " + what);
}

TEST_P(BroadcastTest, EveryFormDtypeAndSize) {
  run([](World& world) {
    const Team& team = world.team();
    std::uint64_t id = 9000;
    for (const DType dtype : moved_dtypes(team)) {
      Broadcast broadcast(team, {.count = 20000, .dtype = dtype}, {.piece_bytes = 3000});
      Broadcast staged(team, {.count = 20000, .dtype = dtype}, {.algorithm = "staged", .piece_bytes = 3000});
      std::optional<Broadcast> fetch;
      if (can_fetch(team)) fetch.emplace(team, BroadcastSpec{.count = 20000, .dtype = dtype}, fetching());
      Broadcast push(team, {.count = 20000, .dtype = dtype}, {.algorithm = "push"});
      Broadcast pull(team, {.count = 20000, .dtype = dtype}, {.algorithm = "pull"});
      std::vector<Broadcast*> symmetric{&broadcast, &push, &pull};
      std::optional<Broadcast> direct;
      if (team.device().meets()) {
        direct.emplace(team, BroadcastSpec{.count = 20000, .dtype = dtype}, by_direct_kernel);
        symmetric.push_back(&*direct);
      }
      for (const std::int64_t count : {0, 1, 3, 1000, 19999}) {
        const auto root = static_cast<int>((id / 7) % static_cast<std::uint64_t>(team.size()));
        check_plain(team, broadcast, count, dtype, root, ++id);
        check_plain(team, staged, count, dtype, root, ++id);
        if (fetch) check_plain(team, *fetch, count, dtype, root, ++id);
        for (Broadcast* plan : symmetric) {
          id += 2;
          check_symmetric(team, *plan, count, dtype, root, id);
        }
      }
    }
  });
}

TEST_P(BroadcastTest, EveryRootByMailAndInOneKernel) {
  run([](World& world) {
    const Team& team = world.team();
    std::uint64_t id = 9500;
    for (const CollectiveOptions& options : plain_or_mail_options(team, 4096)) {
      if (!takes_all_tensors(options)) continue;
      for (const DType dtype : {u8, f32}) {
        Broadcast broadcast(team, {.count = 20000, .dtype = dtype}, options);
        for (int root = 0; root < team.size(); ++root) {
          for (const std::int64_t count : {1, 7, 1024, 4999, 20000}) {
            id += 3;
            check_plain(team, broadcast, count, dtype, root, id, count % 16 == 0 ? 0 : 1);
            check_symmetric(team, broadcast, count, dtype, root, id + 1);
          }
        }
      }
    }
  });
}

// At and above the packet limit (128 KiB to all peers together), and close to the size of one kernel's mailboxes.
TEST_P(BroadcastTest, LongTensorsInOneKernel) {
  run([](World& world) {
    const Team& team = world.team();
    if (!team.device().exchanges_mail()) GTEST_SKIP() << "this device exchanges no mail";
    constexpr std::int64_t longest = 700'000;
    Broadcast automatic(team, {.count = longest, .dtype = u8});
    Broadcast pieces(team, {.count = longest, .dtype = u8}, {.algorithm = "one_kernel", .piece_bytes = 300'000});
    std::uint64_t id = 9900;
    for (Broadcast* plan : {&automatic, &pieces}) {
      for (const std::int64_t count : {131'072, 131'073, 600'000}) {
        id += 3;
        const auto root = static_cast<int>(id % static_cast<std::uint64_t>(team.size()));
        check_plain(team, *plan, count, u8, root, id, count % 16 == 0 ? 0 : 1);
        check_symmetric(team, *plan, count, u8, root, id + 1);
      }
    }
  });
}

// Every rank but the root passes a share on: by copies for large tensors, in one kernel from much smaller sizes on.
TEST_P(BroadcastTest, SharesArePassedOn) {
  run([](World& world) {
    const Team& team = world.team();
    const bool cuda = team.device().id().type == DeviceType::cuda;
    std::uint64_t id = 9950;
    for (const char* algorithm : {"push", "direct_kernel"}) {
      const bool kernel = std::string_view(algorithm) == "direct_kernel";
      if (kernel && !team.device().meets()) continue;
      // The last share and 16-byte vector are always partial, and in the last two sizes the last 8-byte word.
      const std::int64_t most = !cuda ? 600'008 : kernel ? 4'000'008 : 32'000'008;
      if (!kernel && team.size() > 2) {
        EXPECT_LT(passed_on_above(team.device().costs(), team.size() - 1), static_cast<std::size_t>(most - 7));
      }
      Broadcast plan(team, {.count = most, .dtype = u8}, {.algorithm = algorithm});
      for (const std::int64_t less : {0, 4, 7}) {
        check_symmetric(team, plan, most - less, u8, less == 0 ? 0 : team.size() - 1, id += 2);
      }
    }
    if (!team.device().meets() || team.size() < 3) return;
    Broadcast automatic(team, {.count = 4'000'000, .dtype = u8});
    const std::int64_t mailed = (std::int64_t{1536} << 10) / (team.size() - 1);
    EXPECT_NE(automatic.algorithm(mailed, Tensors::symmetric_output), "direct_kernel");
    EXPECT_EQ(automatic.algorithm(mailed + 1, Tensors::symmetric_output), "direct_kernel");
    EXPECT_EQ(automatic.algorithm(4'000'000, Tensors::symmetric_output), "direct_kernel");
    // Also between plain views, in one piece of staging memory after another.
    Broadcast pieces(team, {.count = 4'000'000, .dtype = u8}, {.piece_bytes = 1'000'001});
    for (Broadcast* plan : {&automatic, &pieces}) {
      EXPECT_NE(plan->describe().find("staged: through two slots, by direct_kernel's kernel"), std::string::npos)
          << plan->describe();
      check_plain(team, *plan, 4'000'000 - 5, u8, 1, id += 2);
    }
    // With an SM limit, large pieces are left to copies: with more than three ranks, those of 32 MiB are.
    Broadcast bounded(team, {.count = 40'000'000, .dtype = u8}, {.sms = 4});
    EXPECT_EQ(bounded.describe().find("through two slots of the root") != std::string::npos, team.size() > 3)
        << bounded.describe();
    check_plain(team, bounded, 4'000'000 - 5, u8, 2, id += 2);
  });
}

// A rank that passes shares on in one run is the root of another, one rank is late, some runs are too small for shares.
TEST_P(BroadcastTest, RootsTakeTurnsWhileSharesArePassedOn) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    const bool cuda = team.device().id().type == DeviceType::cuda;
    const auto n = static_cast<std::uint64_t>(team.size());
    const std::int64_t most = cuda ? 24'000'008 : 600'008;
    constexpr std::uint64_t runs = 9;
    Draws draws(12);
    for (const char* algorithm : {"push", "direct_kernel", "auto"}) {
      if (std::string_view(algorithm) == "direct_kernel" && !team.device().meets()) continue;
      const bool plain = std::string_view(algorithm) == "auto";
      const std::size_t piece = plain ? static_cast<std::size_t>(most) / 5 : 0;
      Broadcast plan(team, {.count = most, .dtype = u8}, {.algorithm = algorithm, .piece_bytes = piece});
      const SymmetricTensor small = symmetric(team, {777}, u8);
      const SymmetricTensor large = symmetric(team, {most}, u8);
      std::vector<Bytes> expected;
      std::vector<GuardedTensor> inputs;
      std::vector<GuardedTensor> kept;
      for (std::uint64_t run = 0; run < runs; ++run) {
        const std::int64_t count = run % 3 == 2 ? 777 : most;
        expected.push_back(moved_bytes(9970 + run, 0, static_cast<std::size_t>(count)));
        inputs.emplace_back(team, Dims{count}, u8, 0);
        inputs.back().set(expected.back());
        kept.emplace_back(team, Dims{count}, u8, 0);
      }
      team.barrier();
      for (std::uint64_t run = 0; run < runs; ++run) {
        const SymmetricTensor& tensor = run % 3 == 2 ? small : large;
        const auto root = static_cast<int>(draws.below(n));
        if (run % 2 == 0) delay_somebody(team, stream, draws, 3000);
        if (plain) {
          plan(inputs[run].view(), kept[run].view(), root, stream);
          continue;
        }
        plan(inputs[run].view(), tensor, root, stream);
        if (run % 2 == 1) delay_somebody(team, stream, draws, 3000);
        // Before the next run overwrites it.
        team.device().copy(
            stream, {.dst = kept[run].view().data(), .src = tensor.memory().data(), .bytes = kept[run].view().bytes()});
      }
      team.synchronize(stream);
      for (std::uint64_t run = 0; run < runs; ++run) {
        expect_bytes(kept[run].get(), expected[run], std::string(algorithm) + ", run " + std::to_string(run));
      }
    }
  });
}

TEST_P(BroadcastTest, RootsTakeTurnsWithoutAPause) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    std::vector<CollectiveOptions> ways = plain_or_mail_options(team, 256);
    for (const CollectiveOptions& options : plain_or_mail_options(team)) ways.push_back(options);
    for (const CollectiveOptions& options : ways) {
      Broadcast broadcast(team, {.count = 100'000, .dtype = u8}, options);
      Draws draws(10);
      std::vector<GuardedTensor> tensors;
      std::vector<int> roots;
      constexpr int runs = 50;
      const auto data = [&](std::size_t run) {
        return moved_bytes(10000 + run, 0, static_cast<std::size_t>(tensors[run].view().numel()));
      };
      for (int run = 0; run < runs; ++run) {
        // Mostly one of two roots, so that a rank has often been the root in the previous run.
        const auto n = static_cast<std::uint64_t>(team.size());
        roots.push_back(static_cast<int>(draws.below(4) == 0 ? draws.below(n) : (n - 1) * draws.below(2)));
        tensors.emplace_back(team, Dims{run % 7 == 3 && options.piece_bytes == 0 ? 99'999 : 1000}, u8);
        if (team.rank() == roots.back()) tensors.back().set(data(tensors.size() - 1));
      }
      for (std::size_t run = 0; run < tensors.size(); ++run) {
        if (run % 5 == 0) delay_somebody(team, stream, draws, 1000);
        broadcast(tensors[run].view(), roots[run], stream);
      }
      team.synchronize(stream);
      for (std::size_t run = 0; run < tensors.size(); ++run) {
        expect_bytes(tensors[run].get(), data(run), options.algorithm + ", run " + std::to_string(run));
      }
    }
  });
}

TEST_P(BroadcastTest, SubTeamsInOddOrders) {
  const int n = ranks();
  run([n](World& world) {
    for (const auto& ranks : odd_orders(n)) {
      const Team team = world.team(ranks);
      if (!team) continue;
      Broadcast broadcast(team, {.count = 5000, .dtype = f16}, {.piece_bytes = 2048});
      check_plain(team, broadcast, 4999, f16, team.size() - 1, 11000);
      check_symmetric(team, broadcast, 4999, f16, team.size() - 1, 11001);
      for (const CollectiveOptions& options : plain_or_mail_options(team, 2048)) {
        if (!takes_all_tensors(options)) continue;
        Broadcast small(team, {.count = 5000, .dtype = f16}, options);
        check_plain(team, small, 4999, f16, team.size() - 1, 11002);
        check_symmetric(team, small, 999, f16, 0, 11003);
      }
    }
  });
}

TEST_P(BroadcastTest, ItSaysWhetherItIsOneKernel) {
  run([](World& world) {
    const Team& team = world.team();
    const bool has_kernel = team.device().exchanges_mail() && team.size() > 1;
    const auto says = [&](const Broadcast& plan, const char* what) {
      return plan.describe().find(what) != std::string::npos;
    };
    const Broadcast small(team, {.count = 1000, .dtype = i32});
    EXPECT_EQ(says(small, "into plain views: one_kernel\n"), has_kernel) << small.describe();
    const Broadcast large(team, {.count = 10'000'000, .dtype = i32});
    EXPECT_EQ(says(large, "one_kernel up to"), has_kernel) << large.describe();
    Broadcast without(team, {.count = 1000, .dtype = i32}, {.sms = 0});
    EXPECT_FALSE(says(without, "_kernel")) << without.describe();
    check_plain(team, without, 999, i32, team.size() - 1, 11100);
    if (!has_kernel) return;
    Broadcast few(team, {.count = 50'000, .dtype = i32}, {.sms = 2});
    check_plain(team, few, 50'000, i32, 0, 11103);
    check_symmetric(team, few, 49'999, i32, team.size() - 1, 11104);
  });
}

TANDEM_COLLECTIVE_SUITE(BroadcastTest);

}  // namespace
}  // namespace tandem::testing

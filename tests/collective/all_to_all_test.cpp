// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/all_to_all.hpp"

#include <algorithm>
#include <deque>

#include "collective/support.hpp"

namespace tandem::testing {
namespace {

class AllToAllTest : public CollectiveTest {};

/// The part that `from` sends to `to`.
Bytes part(std::uint64_t id, int from, int to, std::int64_t count, DType dtype) {
  return moved_bytes(id * 1000 + static_cast<std::uint64_t>(to), from,
                     static_cast<std::size_t>(count) * size_of(dtype));
}

/// Runs every form with a matrix of counts and, if all counts are equal (`equal`), also the forms without a matrix.
void check_all_forms(const Team& team, AllToAll& all_to_all, AllToAll& plain, std::span<const std::int64_t> counts,
                     bool equal, DType dtype, std::uint64_t id, std::int64_t offset = 1) {
  const Stream stream(team.device());
  const int n = team.size();
  const int me = team.rank();
  const auto count = [&](int from, int to) { return counts[static_cast<std::size_t>(from * n + to)]; };
  Bytes mine;
  Bytes expected;
  std::int64_t sent = 0;
  std::int64_t got = 0;
  std::int64_t most = 0;
  for (int rank = 0; rank < n; ++rank) {
    const Bytes outgoing = part(id, me, rank, count(me, rank), dtype);
    const Bytes incoming = part(id, rank, me, count(rank, me), dtype);
    mine.insert(mine.end(), outgoing.begin(), outgoing.end());
    expected.insert(expected.end(), incoming.begin(), incoming.end());
    sent += count(me, rank);
    got += count(rank, me);
    std::int64_t row = 0;
    std::int64_t column = 0;
    for (int other = 0; other < n; ++other) {
      row += count(rank, other);
      column += count(other, rank);
    }
    most = std::max({most, row, column});
  }
  const std::string what = describe_case(team, {sent}, dtype);

  GuardedTensor input(team, {sent}, dtype, offset);
  GuardedTensor out(team, {got}, dtype, 2 * offset);
  SymmetricTensor symmetric_tensor = symmetric(team, {most}, dtype);
  input.set(mine);

  plain(input.view(), out.view(), counts, stream);
  // Later work on the stream may overwrite the input: a peer that still reads it must not see that.
  team.device().fill(stream, input.view().data(), std::byte{0x7F}, mine.size());
  team.synchronize(stream);
  expect_bytes(out.get(), expected, "plain, " + what);
  input.set(mine);

  poison(symmetric_tensor);
  all_to_all(input.view(), symmetric_tensor, counts, stream);
  team.synchronize(stream);
  Bytes padded_with_poison = expected;
  padded_with_poison.resize(symmetric_tensor.local().bytes(), poison_of(dtype));
  expect_bytes(get(symmetric_tensor), padded_with_poison, "to symmetric, " + what);

  Bytes padded = mine;
  padded.resize(symmetric_tensor.local().bytes());
  set(symmetric_tensor, padded);
  out.poison();
  all_to_all(symmetric_tensor, out.view(), counts, stream);
  team.device().fill(stream, symmetric_tensor.memory().data(), std::byte{0x11}, padded.size());
  team.synchronize(stream);
  expect_bytes(out.get(), expected, "from symmetric, " + what);
  expect_bytes(input.get(), mine, "input, " + what);

  if (!equal) return;
  out.poison();
  plain(input.view(), out.view(), stream);
  team.synchronize(stream);
  expect_bytes(out.get(), expected, "plain, equal parts, " + what);

  poison(symmetric_tensor);
  all_to_all(input.view(), symmetric_tensor, stream);
  team.synchronize(stream);
  expect_bytes(get(symmetric_tensor), expected, "to symmetric, equal parts, " + what);

  set(symmetric_tensor, mine);
  out.poison();
  all_to_all(symmetric_tensor, out.view(), stream);
  team.synchronize(stream);
  expect_bytes(out.get(), expected, "from symmetric, equal parts, " + what);
}

std::vector<std::int64_t> matrix(int n, std::uint64_t id, std::uint64_t limit) {
  Draws draws(id);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(n * n));
  // On average, at least a third of the pairs exchange nothing.
  for (auto& count : counts) count = draws.below(3) == 0 ? 0 : static_cast<std::int64_t>(draws.below(limit));
  return counts;
}

TEST_P(AllToAllTest, EveryFormDtypeAndSize) {
  run([](World& world) {
    const Team& team = world.team();
    const int n = team.size();
    std::uint64_t id = 7000;
    for (const DType dtype : moved_dtypes(team)) {
      AllToAll all_to_all(team, {.count = 5000, .dtype = dtype}, {.piece_bytes = 4000});
      for (const CollectiveOptions& options : plain_or_mail_options(team, 4000)) {
        AllToAll plain(team, {.count = 5000, .dtype = dtype}, options);
        AllToAll& symmetric = takes_all_tensors(options) ? plain : all_to_all;
        for (const std::int64_t count : {0, 1, 3, 1000, 4096, 4999}) {
          const std::vector<std::int64_t> counts(static_cast<std::size_t>(n * n), count);
          check_all_forms(team, symmetric, plain, counts, true, dtype, ++id, count == 4096 ? 0 : 1);
        }
        for (const std::uint64_t limit : {2U, 40U, 5000U}) {
          ++id;
          check_all_forms(team, symmetric, plain, matrix(n, id, limit), false, dtype, id);
        }
      }
      if (!team.device().meets()) continue;
      AllToAll direct(team, {.count = 5000, .dtype = dtype}, {.algorithm = "direct_kernel"});
      for (const std::int64_t count : {0, 1, 1000, 4096, 4999}) {
        const std::vector<std::int64_t> counts(static_cast<std::size_t>(n * n), count);
        check_all_forms(team, direct, all_to_all, counts, true, dtype, ++id, count == 4096 ? 0 : 1);
      }
      ++id;
      check_all_forms(team, direct, all_to_all, matrix(n, id, 5000), false, dtype, id);
    }
  });
}

// All ranks must choose the same algorithm, although the counts of their own rows and columns differ.
TEST_P(AllToAllTest, LargePartsTakeAKernelWhereVectorAccessesFit) {
  run([](World& world) {
    const Team& team = world.team();
    const auto n = static_cast<std::size_t>(team.size());
    const bool meets = team.device().meets() && n > 1;
    constexpr std::int64_t large = 2 << 20;
    AllToAll plan(team, {.count = large, .dtype = f32});
    for (const Tensors tensors : {Tensors::symmetric_input, Tensors::symmetric_output}) {
      const std::string_view copies = tensors == Tensors::symmetric_output ? "push" : "pull";
      EXPECT_EQ(plan.algorithm(large, tensors), meets ? "direct_kernel" : copies);
      EXPECT_EQ(plan.algorithm(large - 1, tensors), copies);
    }
    EXPECT_EQ(plan.describe().find("\ndirect_kernel: ") != std::string::npos, meets) << plan.describe();
    std::vector<std::int64_t> counts(n * n, 1000);
    counts[n - 1] = large;
    check_all_forms(team, plan, plan, counts, false, f32, 8400, 0);
    counts.back() = 3;  // only the last rank's part for itself is that small
    check_all_forms(team, plan, plan, counts, false, f32, 8401, 0);
  });
}

TEST_P(AllToAllTest, SubTeamsInOddOrders) {
  const int n = ranks();
  run([n](World& world) {
    for (const auto& ranks : odd_orders(n)) {
      const Team team = world.team(ranks);
      if (!team) continue;
      AllToAll all_to_all(team, {.count = 9999, .dtype = u8}, {.piece_bytes = 512});
      const std::uint64_t id = 8000 + ranks.size();
      for (const std::uint64_t most : {1000U, 10'000U}) {
        check_all_forms(team, all_to_all, all_to_all, matrix(team.size(), id, most), false, u8, id);
      }
      for (const CollectiveOptions& options : plain_or_mail_options(team, 512)) {
        if (!takes_all_tensors(options)) continue;
        AllToAll small(team, {.count = 999, .dtype = u8}, options);
        check_all_forms(team, small, small, matrix(team.size(), id + 1, 1000), false, u8, id + 1);
      }
    }
  });
}

// At and above the packet limit (128 KiB to all peers together), and close to the size of one kernel's mailboxes.
TEST_P(AllToAllTest, LongPartsInOneKernel) {
  run([](World& world) {
    const Team& team = world.team();
    if (!team.device().exchanges_mail()) GTEST_SKIP() << "this device exchanges no mail";
    const int n = team.size();
    constexpr std::int64_t longest = 700'000;
    AllToAll automatic(team, {.count = longest, .dtype = u8});
    AllToAll pieces(team, {.count = longest, .dtype = u8}, {.algorithm = "one_kernel", .piece_bytes = 300'000});
    std::uint64_t id = 8100;
    for (AllToAll* plan : {&automatic, &pieces}) {
      for (const std::int64_t count : {131'072, 131'073, 600'000}) {
        const std::vector<std::int64_t> counts(static_cast<std::size_t>(n * n), count);
        check_all_forms(team, *plan, *plan, counts, true, u8, ++id, count % 16 == 0 ? 0 : 1);
      }
      ++id;
      check_all_forms(team, *plan, *plan, matrix(n, id, longest), false, u8, id);
    }
  });
}

// Two ranks that exchange nothing in most runs must not overtake each other either.
TEST_P(AllToAllTest, RunsWithFewPartsFollowEachOtherWithoutAPause) {
  run([](World& world) {
    const Team& team = world.team();
    const int n = team.size();
    const int me = team.rank();
    const Stream stream(team.device());
    for (const CollectiveOptions& options : plain_or_mail_options(team)) {
      AllToAll all_to_all(team, {.count = 100'000, .dtype = u8}, options);
      Draws draws(8200);
      struct Run {
        std::vector<std::int64_t> counts;
        GuardedTensor input;
        GuardedTensor out;
      };
      std::deque<Run> runs;
      for (std::uint64_t run = 0; run < 60; ++run) {
        std::vector<std::int64_t> counts(static_cast<std::size_t>(n * n));
        for (std::int64_t& count : counts) {
          if (draws.below(4) == 0) count = static_cast<std::int64_t>(draws.below(draws.below(8) == 0 ? 100'000 : 500));
        }
        Bytes input;
        std::int64_t got = 0;
        for (int rank = 0; rank < n; ++rank) {
          const Bytes outgoing = part(8200 + run, me, rank, counts[static_cast<std::size_t>(me * n + rank)], u8);
          input.insert(input.end(), outgoing.begin(), outgoing.end());
          got += counts[static_cast<std::size_t>(rank * n + me)];
        }
        const auto sent = static_cast<std::int64_t>(input.size());
        runs.push_back({counts, GuardedTensor(team, {sent}, u8, 1), GuardedTensor(team, {got}, u8, 3)});
        runs.back().input.set(input);
      }
      for (std::size_t run = 0; run < runs.size(); ++run) {
        if (run % 5 == 0) delay_somebody(team, stream, draws, 1000);
        all_to_all(runs[run].input.view(), runs[run].out.view(), runs[run].counts, stream);
      }
      team.synchronize(stream);
      for (std::size_t run = 0; run < runs.size(); ++run) {
        Bytes expected;
        for (int rank = 0; rank < n; ++rank) {
          const auto count = runs[run].counts[static_cast<std::size_t>(rank * n + me)];
          const Bytes incoming = part(8200 + run, rank, me, count, u8);
          expected.insert(expected.end(), incoming.begin(), incoming.end());
        }
        expect_bytes(runs[run].out.get(), expected, options.algorithm + ", run " + std::to_string(run));
      }
    }
  });
}

TEST_P(AllToAllTest, ItSaysWhetherItIsOneKernel) {
  run([](World& world) {
    const Team& team = world.team();
    const bool has_kernel = team.device().exchanges_mail() && team.size() > 1;
    const auto says = [&](const AllToAll& plan, const char* what) {
      return plan.describe().find(what) != std::string::npos;
    };
    const AllToAll small(team, {.count = 1000, .dtype = i32});
    EXPECT_EQ(says(small, "between plain views: one_kernel\n"), has_kernel) << small.describe();
    const AllToAll large(team, {.count = 10'000'000, .dtype = i32});
    EXPECT_EQ(says(large, "one_kernel up to"), has_kernel) << large.describe();
    AllToAll without(team, {.count = 1000, .dtype = i32}, {.sms = 0});
    EXPECT_FALSE(says(without, "_kernel")) << without.describe();
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(team.size() * team.size()), 999);
    check_all_forms(team, without, without, counts, true, i32, 8300);
    if (!has_kernel) return;
    AllToAll few(team, {.count = 20'000, .dtype = i32}, {.sms = 2});
    check_all_forms(team, few, few, matrix(team.size(), 8301, 20'000), false, i32, 8301);
  });
}

TANDEM_COLLECTIVE_SUITE(AllToAllTest);

}  // namespace
}  // namespace tandem::testing

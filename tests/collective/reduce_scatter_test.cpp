// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/reduce_scatter.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <span>
#include <string_view>
#include <vector>

#include "tandem/base/env.hpp"
#include "tandem/base/error.hpp"

#include "collective/support.hpp"
#include "memory/private_memory.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

class ReduceScatterTest : public CollectiveTest {};

/// Checks every form of one reduce-scatter; `plain` runs the forms with plain views.
void check_all_forms(const Team& team, ReduceScatter& reduce_scatter, ReduceScatter& plain, std::int64_t rows,
                     std::int64_t columns, DType dtype, std::uint64_t id) {
  const Stream stream(team.device());
  const int n = team.size();
  const Dims sizes{rows, columns};
  const Shard my_rows = shard_of(rows, n, team.rank());
  const Dims my_sizes{my_rows.count, columns};
  const std::size_t my_offset = static_cast<std::size_t>(my_rows.begin * columns) * size_of(dtype);
  std::vector<std::vector<double>> inputs;
  for (int rank = 0; rank < n; ++rank) inputs.push_back(summed_values(id, rank, rows * columns, dtype));
  const Bytes mine = stored(inputs[static_cast<std::size_t>(team.rank())], dtype);
  const Expected expected = part_of(expected_sum(inputs, dtype), my_rows.begin * columns, my_rows.count * columns);
  const std::string what = describe_case(team, sizes, dtype);

  SymmetricTensor symmetric_input = symmetric(team, sizes, dtype);
  for (const std::int64_t offset : {0, 1, 3}) {
    GuardedTensor input(team, sizes, dtype, offset);
    input.set(mine);
    GuardedTensor shard(team, my_sizes, dtype, 3 - offset);
    plain(input.view(), shard.view(), stream);
    team.synchronize(stream);
    const Bytes staged = shard.get();
    expect_sums(staged, expected, "plain, " + what);
    expect_bytes(input.get(), mine, "plain input, " + what);
    shard.poison();
    plain(input.view(), shard.view(), stream);
    // Later work on the stream may overwrite the input: a peer that still reads it must not see that.
    team.device().fill(stream, input.view().data(), std::byte{0x7F}, mine.size());
    team.synchronize(stream);
    expect_bytes(shard.get(), staged, "plain, again, " + what);

    set(symmetric_input, mine);
    shard.poison();
    reduce_scatter(symmetric_input, shard.view(), stream);
    // Later work on the stream may overwrite the input: a peer that still reads it must not see that.
    team.device().fill(stream, symmetric_input.memory().data(), std::byte{0x7F}, mine.size());
    team.synchronize(stream);
    expect_bytes(shard.get(), staged, "the same bits from a symmetric tensor, " + what);
  }

  set(symmetric_input, mine);
  reduce_scatter(symmetric_input, stream);
  team.synchronize(stream);
  Bytes in_place = get(symmetric_input);
  Bytes rest = mine;
  const std::size_t my_bytes = static_cast<std::size_t>(my_sizes.numel()) * size_of(dtype);
  const auto part = [&](Bytes& bytes) { return std::span(bytes).subspan(my_offset, my_bytes); };
  expect_sums({part(in_place).begin(), part(in_place).end()}, expected, "in place, " + what);
  std::ranges::fill(part(in_place), std::byte{});
  std::ranges::fill(part(rest), std::byte{});
  expect_bytes(in_place, rest, "the rest of the input, " + what);

  GuardedTensor whole(team, sizes, dtype, 1);
  whole.set(mine);
  plain(whole.view(), whole.view().narrow(0, my_rows.begin, my_rows.count), stream);
  team.synchronize(stream);
  Bytes plain_in_place = whole.get();
  expect_sums({part(plain_in_place).begin(), part(plain_in_place).end()}, expected, "plain in place, " + what);
  std::ranges::fill(part(plain_in_place), std::byte{});
  expect_bytes(plain_in_place, rest, "the rest of the plain input, " + what);
}

TEST_P(ReduceScatterTest, EveryFormDtypeAndSize) {
  run([](World& world) {
    const Team& team = world.team();
    const std::int64_t n = team.size();
    std::uint64_t id = 1000;
    for (const DType dtype : summed_dtypes(team)) {
      ReduceScatter reduce_scatter(team, {.count = 8192, .dtype = dtype}, {.piece_bytes = 3000});
      const std::pair<std::int64_t, std::int64_t> shapes[]{
          {0, 4}, {n, 1}, {1, 5}, {7 * n, 3}, {n + 1, 13}, {2 * n - 1, 1}, {3 * n - 2, 257}, {4096 * n, 1}};
      for (const CollectiveOptions& options : plain_or_mail_options(team, 3000)) {
        ReduceScatter plain(team, {.count = 8192, .dtype = dtype}, options);
        const bool takes_both = options.algorithm == "mail" || options.algorithm == "one_kernel";
        ReduceScatter& symmetric = takes_both ? plain : reduce_scatter;
        for (const auto& [rows, columns] : shapes) {
          check_all_forms(team, symmetric, plain, rows, columns, dtype, ++id);
        }
      }
      ReduceScatter push(team, {.count = 8192, .dtype = dtype}, {.algorithm = "push", .piece_bytes = 3000});
      for (const auto& [rows, columns] : shapes) check_all_forms(team, push, push, rows, columns, dtype, ++id);
      if (!team.device().meets()) continue;
      ReduceScatter direct(team, {.count = 8192, .dtype = dtype}, {.algorithm = "direct_kernel"});
      for (const auto& [rows, columns] : shapes) {
        check_all_forms(team, direct, reduce_scatter, rows, columns, dtype, ++id);
      }
    }
  });
}

/// Every element is the sum in fp32, which whole numbers of this size reach exactly, and which the inputs' dtype does
/// not hold.
void check_wide_sums(const Team& team, ReduceScatter& reduce_scatter, bool symmetric_input, std::int64_t rows,
                     DType dtype, std::uint64_t id) {
  const Stream stream(team.device());
  const Shard mine = shard_of(rows, team.size(), team.rank());
  std::vector<double> sums(static_cast<std::size_t>(rows), 0.0);
  std::vector<double> own;
  for (int rank = 0; rank < team.size(); ++rank) {
    const std::uint64_t of_rank = key(seed(), {id, static_cast<std::uint64_t>(rank)});
    std::vector<double> values;
    for (std::int64_t i = 0; i < rows; ++i) {
      // Of few bits each, so that they are exact in 16 bits, and of different magnitudes, so that their sum is not.
      const std::uint64_t bits = random_bits(of_rank, static_cast<std::uint64_t>(i));
      values.push_back(std::ldexp(static_cast<double>(bits % 255) - 127, static_cast<int>(bits >> 61)) / 64);
      sums[static_cast<std::size_t>(i)] += values.back();
    }
    if (rank == team.rank()) own = values;
  }
  GuardedTensor plain(team, {rows}, dtype, 1);
  plain.set(std::span<const double>(own));
  GuardedTensor shard(team, {mine.count}, f32, 3);
  if (symmetric_input) {
    SymmetricTensor input = symmetric(team, {rows}, dtype);
    set(input, plain.get());
    reduce_scatter(input, shard.view(), stream);
    team.synchronize(stream);
  } else {
    reduce_scatter(plain.view(), shard.view(), stream);
    team.synchronize(stream);
  }
  const std::span<const double> expected(sums);
  expect_bytes(
      shard.get(),
      stored(expected.subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.count)), f32),
      reduce_scatter.describe() + ", " + describe_case(team, {rows}, dtype));
}

TEST_P(ReduceScatterTest, SumsOf16BitsAreLeftInFp32) {
  run([](World& world) {
    const Team& team = world.team();
    const std::int64_t n = team.size();
    std::uint64_t id = 4000;
    for (const DType dtype : {bf16, f16}) {
      for (const char* algorithm : {"auto", "direct", "staged", "push", "fetch"}) {
        if (algorithm == std::string_view("fetch") && !can_fetch(team)) continue;
        ReduceScatter plan(team, {.count = 5000, .dtype = dtype, .out_dtype = f32},
                           {.algorithm = algorithm, .piece_bytes = 3000});
        for (const Tensors tensors : {Tensors::plain, Tensors::symmetric_input}) {
          const auto known = ReduceScatter::algorithms(tensors);
          if (algorithm != std::string_view("auto") && std::ranges::find(known, algorithm) == known.end()) continue;
          for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, n + 1, 257 * n - 1, 5000 * n}) {
            check_wide_sums(team, plan, tensors != Tensors::plain, rows, dtype, ++id);
          }
        }
      }
    }
  });
}

// Where copies leave computation alone, a piece is summed on a stream of its own.
TEST(ReduceScatterOverALink, SumsAPieceWhileTheNextIsPushed) {
  Env env;
  env.link = LinkOptions{std::chrono::microseconds(100), 1e9};
  for (const int ranks : {2, 3, 5}) {
    run_ranks(ranks,
              [](World& world) {
                const Team& team = world.team();
                ReduceScatter push(team, {.count = 8192, .dtype = f32}, {.algorithm = "push", .piece_bytes = 3000});
                expect_says(push.describe(), {"each summed while the next is copied"});
                std::uint64_t id = 5000;
                for (const std::int64_t columns : {1, 257, 2048}) {
                  check_all_forms(team, push, push, 3 * team.size() - 1, columns, f32, ++id);
                }
              },
              {.env = env});
  }
}

TEST_P(ReduceScatterTest, RefusesSumsThatItDoesNotWiden) {
  run([](World& world) {
    const Team& team = world.team();
    const auto plan = [&](DType dtype, DType sums, const char* algorithm) {
      return ReduceScatter(team, {.count = 8, .dtype = dtype, .out_dtype = sums}, {.algorithm = algorithm});
    };
    expect_error<InvalidArgument>([&] { plan(bf16, f64, "auto"); }, {"sums in f64", "dtype bf16", "bf16 and f32"});
    expect_error<InvalidArgument>([&] { plan(f32, f64, "auto"); }, {"sums in f64", "dtype f32", "allowed: f32"});
    expect_error<InvalidArgument>([&] { plan(f16, f32, "mail"); }, {"'mail'", "direct, staged, fetch, push"});
    expect_error<InvalidArgument>([&] { ReduceScatter(team, {.count = 8}, {.algorithm = "push", .staging = false}); },
                                  {"'push'", "staging"});
    ReduceScatter wide = plan(bf16, f32, "auto");
    const Stream stream(team.device());
    const SymmetricTensor input = symmetric(team, {team.size()}, bf16);
    const GuardedTensor narrow(team, {1}, bf16);
    expect_error<InvalidArgument>([&] { wide(input, stream); }, {"in place", "sums are f32", "input is bf16"});
    expect_error<InvalidArgument>([&] { wide(input, narrow.view(), stream); }, {"shard is bf16[1]", "f32"});
    ReduceScatter(team, {.count = 8, .dtype = bf16, .out_dtype = bf16}, {.algorithm = "direct"});
  });
}

TEST_P(ReduceScatterTest, ReadsTinyAndEmptyShardsDirectly) {
  run([](World& world) {
    const Team& team = world.team();
    const int n = team.size();
    // "auto" would sum shards of these sizes through staging memory.
    ReduceScatter reduce_scatter(team, {.count = 8, .dtype = f32}, {.algorithm = "direct"});
    const Stream stream(team.device());
    for (int rows = 0; rows <= 2 * n; ++rows) {
      std::vector<std::vector<double>> inputs;
      for (int rank = 0; rank < n; ++rank) {
        inputs.push_back(summed_values(3000 + static_cast<std::uint64_t>(rows), rank, rows, f32));
      }
      const Shard mine = shard_of(rows, n, team.rank());
      SymmetricTensor input = symmetric(team, {rows}, f32);
      set(input, stored(inputs[static_cast<std::size_t>(team.rank())], f32));
      GuardedTensor shard(team, {mine.count}, f32, 1);
      reduce_scatter(input, shard.view(), stream);
      team.synchronize(stream);
      expect_sums(shard.get(), part_of(expected_sum(inputs, f32), mine.begin, mine.count),
                  describe_case(team, {rows}, f32));
    }
  });
}

TEST_P(ReduceScatterTest, ReadsTinyPlainShardsWhereTheyAre) {
  if (device() == DeviceType::cuda) GTEST_SKIP() << "the host alone reads private memory";
  run([](World& world) {
    const Team& team = world.team();
    if (!can_fetch(team)) GTEST_SKIP() << why_no_loans(team);
    const std::int64_t n = team.size();
    for (const std::int64_t count : {1, 2, 8, 65}) {
      ReduceScatter reduce_scatter(team, {.count = count, .dtype = bf16});
      ReduceScatter fetch(team, {.count = count, .dtype = bf16}, fetching(256));
      for (const std::int64_t rows : {std::int64_t{1}, n * count - 1, n * count}) {
        check_all_forms(team, reduce_scatter, fetch, rows, 1, bf16, 2500 + static_cast<std::uint64_t>(count));
      }
    }
  });
}

TEST_P(ReduceScatterTest, SubTeamsInOddOrders) {
  const int n = ranks();
  run([n](World& world) {
    for (const auto& ranks : odd_orders(n)) {
      const Team team = world.team(ranks);
      if (!team) continue;
      ReduceScatter reduce_scatter(team, {.count = 4096, .dtype = bf16}, {.piece_bytes = 512});
      std::uint64_t id = 2000 + 100 * ranks.size();
      for (const CollectiveOptions& options : plain_or_mail_options(team, 512)) {
        ReduceScatter plain(team, {.count = 4096, .dtype = bf16}, options);
        ReduceScatter& symmetric = takes_all_tensors(options) ? plain : reduce_scatter;
        for (const std::int64_t columns : {33, 1203}) {
          check_all_forms(team, symmetric, plain, 3 * team.size() - 1, columns, bf16, ++id);
        }
      }
    }
  });
}

TANDEM_COLLECTIVE_SUITE(ReduceScatterTest);

}  // namespace
}  // namespace tandem::testing

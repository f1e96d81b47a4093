// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/all_to_all.hpp"

#include "collective/support.hpp"

namespace tandem::testing {
namespace {

class AllToAllTest : public CollectiveTest {};

/// The part that `from` sends to `to`.
Bytes part(std::uint64_t id, int from, int to, std::int64_t count, DType dtype) {
  return moved_bytes(id * 1000 + static_cast<std::uint64_t>(to), from,
                     static_cast<std::size_t>(count) * size_of(dtype));
}

/// Runs every form that takes a matrix of counts, and without one (`equal`) those that take none.
void check_all_forms(const Team& team, AllToAll& all_to_all, AllToAll& plain, std::span<const std::int64_t> counts,
                     bool equal, DType dtype, std::uint64_t id) {
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

  GuardedTensor input(team, {sent}, dtype, 1);
  GuardedTensor out(team, {got}, dtype, 2);
  SymmetricTensor symmetric_tensor = symmetric(team, {most}, dtype);
  input.set(mine);

  plain(input.view(), out.view(), counts, stream);
  // The input may be used again in the stream's order: this must not reach a peer that still reads.
  team.device().fill(stream, input.view().data(), std::byte{0x7F}, mine.size());
  team.synchronize(stream);
  expect_bytes(out.get(), expected, "plain, " + what);
  input.set(mine);

  poison(symmetric_tensor);
  all_to_all(input.view(), symmetric_tensor, counts, stream);
  team.synchronize(stream);
  Bytes received = get(symmetric_tensor);
  received.resize(expected.size());
  expect_bytes(received, expected, "to symmetric, " + what);

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
  // Every third pair has nothing to say.
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
      for (const CollectiveOptions& options : plain_options(team, 4000)) {
        AllToAll plain(team, {.count = 5000, .dtype = dtype}, options);
        for (const std::int64_t count : {0, 1, 3, 1000, 4999}) {
          const std::vector<std::int64_t> counts(static_cast<std::size_t>(n * n), count);
          check_all_forms(team, all_to_all, plain, counts, true, dtype, ++id);
        }
        for (const std::uint64_t limit : {2U, 40U, 5000U}) {
          ++id;
          check_all_forms(team, all_to_all, plain, matrix(n, id, limit), false, dtype, id);
        }
      }
    }
  });
}

TEST_P(AllToAllTest, SubTeamsInOddOrders) {
  const int n = ranks();
  run([n](World& world) {
    for (const auto& ranks : odd_orders(n)) {
      const Team team = world.team(ranks);
      if (!team) continue;
      AllToAll all_to_all(team, {.count = 999, .dtype = u8}, {.piece_bytes = 512});
      const std::uint64_t id = 8000 + ranks.size();
      check_all_forms(team, all_to_all, all_to_all, matrix(team.size(), id, 1000), false, u8, id);
    }
  });
}

TANDEM_COLLECTIVE_SUITE(AllToAllTest);

}  // namespace
}  // namespace tandem::testing

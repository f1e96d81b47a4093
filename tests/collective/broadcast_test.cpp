// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/broadcast.hpp"

#include <optional>

#include "collective/support.hpp"

namespace tandem::testing {
namespace {

class BroadcastTest : public CollectiveTest {};

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
    // The root may write its tensor again in the stream's order, though others may still be reading.
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

void check_plain(const Team& team, Broadcast& broadcast, std::int64_t count, DType dtype, int root, std::uint64_t id) {
  const Stream stream(team.device());
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  const Bytes expected = moved_bytes(id, root, bytes);
  const std::string what = describe_case(team, {count}, dtype) + ", root " + std::to_string(root);
  GuardedTensor input(team, {count}, dtype, 1);
  GuardedTensor out(team, {count}, dtype, 2);
  if (team.rank() == root) input.set(expected);
  broadcast(input.view(), out.view(), root, stream);
  broadcast(input.view(), root, stream);
  // The root's tensor may be used again in the stream's order: this must not reach a peer that still reads.
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
      std::optional<Broadcast> fetch;
      if (can_fetch(team)) fetch.emplace(team, BroadcastSpec{.count = 20000, .dtype = dtype}, fetching());
      Broadcast push(team, {.count = 20000, .dtype = dtype}, {.algorithm = "push"});
      Broadcast pull(team, {.count = 20000, .dtype = dtype}, {.algorithm = "pull"});
      for (const std::int64_t count : {0, 1, 3, 1000, 19999}) {
        const auto root = static_cast<int>((id / 7) % static_cast<std::uint64_t>(team.size()));
        check_plain(team, broadcast, count, dtype, root, ++id);
        if (fetch) check_plain(team, *fetch, count, dtype, root, ++id);
        for (Broadcast* plan : {&broadcast, &push, &pull}) {
          id += 2;
          check_symmetric(team, *plan, count, dtype, root, id);
        }
      }
    }
  });
}

TEST_P(BroadcastTest, RootsTakeTurnsWithoutAPause) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    Broadcast broadcast(team, {.count = 1000, .dtype = u8}, {.piece_bytes = 256});
    Draws draws(10);
    std::vector<GuardedTensor> tensors;
    std::vector<int> roots;
    for (int run = 0; run < 50; ++run) {
      roots.push_back(static_cast<int>(draws.below(static_cast<std::uint64_t>(team.size()))));
      tensors.emplace_back(team, Dims{1000}, u8);
      if (team.rank() == roots.back()) {
        tensors.back().set(moved_bytes(10000 + static_cast<std::uint64_t>(run), 0, 1000));
      }
      if (run % 5 == 0) delay_somebody(team, stream, draws, 1000);
      broadcast(tensors.back().view(), roots.back(), stream);
    }
    team.synchronize(stream);
    for (std::size_t run = 0; run < tensors.size(); ++run) {
      expect_bytes(tensors[run].get(), moved_bytes(10000 + run, 0, 1000), "run " + std::to_string(run));
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
    }
  });
}

TANDEM_COLLECTIVE_SUITE(BroadcastTest);

}  // namespace
}  // namespace tandem::testing

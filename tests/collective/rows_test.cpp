// SPDX-License-Identifier: Apache-2.0
#include "collective/rows.hpp"

#include <algorithm>
#include <array>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/device/graph.hpp"

#include "collective/support.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

TEST(Rows, FitWhereEachIsDenseAndNoneOverlaps) {
  std::array<float, 64> memory{};
  const auto fits = [&](const Dims& sizes, const Dims& strides) {
    return Rows::fits(TensorView(memory.data(), sizes, strides, f32));
  };
  EXPECT_TRUE(fits({3, 4}, {4, 1}));
  EXPECT_TRUE(fits({3, 4}, {7, 1}));
  EXPECT_TRUE(fits({3, 2, 2}, {9, 2, 1}));
  EXPECT_TRUE(fits({3}, {5}));
  EXPECT_TRUE(fits({0, 4}, {1, 9}));
  EXPECT_FALSE(fits({3, 4}, {3, 1}));
  EXPECT_FALSE(fits({3, 4}, {1, 3}));
  EXPECT_FALSE(fits({3, 2, 2}, {9, 3, 1}));
  EXPECT_FALSE(fits({3, 4}, {-4, 1}));
  EXPECT_FALSE(fits({4, 4}, {std::int64_t{1} << 62, 1})) << "four times that is beyond 2^63";
  EXPECT_FALSE(fits({3, 4}, {std::int64_t{1} << 60, 1})) << "in bytes, too";
}

TEST(Rows, PlacesGoOnInTheNextRow) {
  std::array<std::byte, 64> memory{};
  const Rows rows(TensorView(memory.data(), {3, 4}, {10, 1}, u8));
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ((rows + i).address(), memory.data() + i / 4 * 10 + i % 4);
    EXPECT_EQ((rows + i).left_in_row(), 4 - i % 4);
    EXPECT_EQ((rows + i).steps_by(4), i % 4 == 0);
  }
}

/// A tensor whose rows are parts of wider ones, the rest of which must stay poisoned.
class Strided {
 public:
  Strided(const Team& team, std::int64_t rows, std::int64_t columns, DType dtype, std::int64_t before,
          std::int64_t behind)
      : whole_(team, {rows, before + columns + behind}, dtype, 1),
        row_(static_cast<std::size_t>(columns) * size_of(dtype)),
        pitch_(static_cast<std::size_t>(before + columns + behind) * size_of(dtype)),
        at_(static_cast<std::size_t>(before) * size_of(dtype)),
        poison_(poison_of(dtype)),
        view_(whole_.view().narrow(1, before, columns)) {}

  [[nodiscard]] TensorView view() const { return view_; }
  void set(const Bytes& dense) {
    Bytes bytes = whole_.get();
    for (std::size_t i = 0; i < dense.size(); ++i) bytes[i / row_ * pitch_ + at_ + i % row_] = dense[i];
    whole_.set(std::span<const std::byte>(bytes));
  }
  void poison() { whole_.poison(); }
  /// The elements; checks that everything between the rows is still poisoned.
  [[nodiscard]] Bytes get() const {
    Bytes dense;
    const Bytes bytes = whole_.get();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t column = i % pitch_;
      if (column >= at_ && column < at_ + row_) {
        dense.push_back(bytes[i]);
      } else {
        EXPECT_EQ(bytes[i], poison_) << "byte " << i << ", between the rows";
      }
    }
    return dense;
  }

 private:
  GuardedTensor whole_;
  std::size_t row_;
  std::size_t pitch_;
  std::size_t at_;
  std::byte poison_;
  TensorView view_;
};

class StridedTest : public CollectiveTest {};

std::vector<Shape> strided_shapes(std::int64_t n) { return {{n, 1}, {2 * n, 5}, {3 * n, 33}, {n, 700}, {40 * n, 16}}; }

TEST_P(StridedTest, AllGather) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    const int n = team.size();
    std::uint64_t id = 0;
    for (const DType dtype : {u8, bf16, i64}) {
      AllGather gather(team, {.count = 4096, .dtype = dtype}, {.piece_bytes = 1000, .strided = true});
      AllGather push(team, {.count = 4096, .dtype = dtype}, {.algorithm = "push", .strided = true});
      std::vector<Shape> all = strided_shapes(n);
      all.push_back({2 * n - 1, 13});  // the last shard is shorter, or empty
      for (const auto& [rows, columns] : all) {
        ++id;
        const Shard my_rows = shard_of(rows, n, team.rank());
        const std::size_t row = static_cast<std::size_t>(columns) * size_of(dtype);
        const auto data = [&](int rank) {
          return moved_bytes(id, rank, static_cast<std::size_t>(shard_of(rows, n, rank).count) * row);
        };
        Bytes expected;
        for (int rank = 0; rank < n; ++rank) {
          const Bytes shard = data(rank);
          expected.insert(expected.end(), shard.begin(), shard.end());
        }
        const std::string what = describe_case(team, {rows, columns}, dtype);
        // The rows are contiguous on some ranks only: this is local, and no other rank has to know.
        const std::int64_t gap = team.rank() % 2 == 0 ? 3 : 0;
        Strided shard(team, my_rows.count, columns, dtype, gap, 2 * gap);
        Strided out(team, rows, columns, dtype, 1, gap);
        shard.set(data(team.rank()));
        gather(shard.view(), out.view(), stream);
        team.synchronize(stream);
        expect_bytes(out.get(), expected, "plain, " + what);

        out.poison();
        out.set({});
        const TensorView own = out.view().narrow(0, my_rows.begin, my_rows.count);
        for (std::int64_t r = 0; r < my_rows.count; ++r) {
          team.device().upload(own.narrow(0, r, 1).data(), data(team.rank()).data() + static_cast<std::size_t>(r) * row,
                               row);
        }
        gather(own, out.view(), stream);
        team.synchronize(stream);
        expect_bytes(out.get(), expected, "plain in place, " + what);

        for (AllGather* const plan : {&gather, &push}) {
          const SymmetricTensor gathered = symmetric(team, {rows, columns}, dtype);
          poison(gathered);
          (*plan)(shard.view(), gathered, stream);
          team.synchronize(stream);
          expect_bytes(get(gathered), expected, "plain to symmetric, " + what);
        }
        expect_bytes(shard.get(), data(team.rank()), "input, " + what);
      }
    }
  });
}

TEST_P(StridedTest, AllToAll) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    const int n = team.size();
    std::uint64_t id = 100;
    for (const DType dtype : {u8, f32}) {
      AllToAll exchange(team, {.count = 4096, .dtype = dtype}, {.piece_bytes = 1000, .strided = true});
      for (const auto& [rows, columns] : strided_shapes(n)) {
        ++id;
        const std::size_t bytes = static_cast<std::size_t>(rows * columns) * size_of(dtype);
        const std::size_t part = bytes / static_cast<std::size_t>(n);
        const auto data = [&](int rank) { return moved_bytes(id, rank, bytes); };
        Bytes expected;
        for (int rank = 0; rank < n; ++rank) {
          const Bytes theirs = data(rank);
          const auto begin = theirs.begin() + team.rank() * static_cast<std::ptrdiff_t>(part);
          expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(part));
        }
        const std::string what = describe_case(team, {rows, columns}, dtype);
        Strided input(team, rows, columns, dtype, 2, 1);
        // The output's rows differ from the input's, but have as many elements in all.
        Strided out(team, rows * columns, 1, dtype, 0, team.rank() % 2);
        input.set(data(team.rank()));
        exchange(input.view(), out.view(), stream);
        team.synchronize(stream);
        expect_bytes(out.get(), expected, "plain, " + what);

        const SymmetricTensor tensor = symmetric(team, {rows, columns}, dtype);
        poison(tensor);
        exchange(input.view(), tensor, stream);
        team.synchronize(stream);
        expect_bytes(get(tensor), expected, "pushed, " + what);

        set(tensor, data(team.rank()));
        Strided pulled(team, rows, columns, dtype, 1, 1);
        exchange(tensor, pulled.view(), stream);
        team.synchronize(stream);
        expect_bytes(pulled.get(), expected, "pulled, " + what);
      }
    }
  });
}

TEST_P(StridedTest, Broadcast) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    const int n = team.size();
    std::uint64_t id = 200;
    Broadcast broadcast(team, {.count = 200'000, .dtype = bf16}, {.piece_bytes = 1000, .strided = true});
    for (const auto& [rows, columns] : strided_shapes(n)) {
      ++id;
      const int root = static_cast<int>(id) % n;
      const Bytes expected = moved_bytes(id, root, static_cast<std::size_t>(rows * columns) * size_of(bf16));
      const std::string what = describe_case(team, {rows, columns}, bf16);
      Strided tensor(team, rows, columns, bf16, 1, team.rank());
      if (team.rank() == root) tensor.set(expected);
      broadcast(tensor.view(), root, stream);
      team.synchronize(stream);
      expect_bytes(tensor.get(), expected, "in place, " + what);

      const SymmetricTensor out = symmetric(team, {rows, columns}, bf16);
      poison(out);
      broadcast(tensor.view(), out, root, stream);
      team.synchronize(stream);
      expect_bytes(get(out), expected, "into a symmetric tensor, " + what);
    }
  });
}

TEST_P(StridedTest, WhatTakesNoRowsSaysSo) {
  run([](World& world) {
    const Team& team = world.team();
    expect_error<InvalidArgument>([&] { AllReduce(team, {.count = 8}, {.strided = true}); },
                                  {"AllReduce", "strided views were asked for", "sums take dense ones"});
    expect_error<InvalidArgument>([&] { AllGather(team, {.count = 8}, {.algorithm = "mail", .strided = true}); },
                                  {"AllGather", "'mail' was asked for with strided views", "push, staged"});
    const Stream stream(team.device());
    AllGather dense(team, {.count = 64});
    AllGather strided(team, {.count = 64}, {.strided = true});
    EXPECT_NE(strided.describe().find("strided"), std::string::npos) << strided.describe();
    const GuardedTensor whole(team, {2 * team.size(), 12}, f32);
    const TensorView columns = whole.view().narrow(1, 2, 6);
    const TensorView shard = columns.narrow(0, 0, 2);
    expect_error<InvalidArgument>([&] { dense(shard, columns, stream); }, {"gathered", "strides [12, 1]", "dense"});
    const TensorView crossed(whole.view().data(), {2 * team.size(), 6}, {1, 2}, f32, whole.view().device());
    expect_error<InvalidArgument>([&] { strided(shard, crossed, stream); },
                                  {"gathered", "strides [1, 2]", "each row must be dense"});
    // Begins at this rank's rows of `columns`, but only the first row coincides: the strides differ.
    const TensorView place = columns.narrow(0, 2 * std::int64_t{team.rank()}, 2);
    const TensorView tight(place.data(), {2, 6}, f32, columns.device());
    expect_error<InvalidArgument>([&] { strided(tight, columns, stream); },
                                  {"AllGather", "shard has sizes [2, 6] with strides [6, 1]", "a place of gathered",
                                   "strides [12, 1]", "must lie alike, or apart"});
    Broadcast broadcast(team, {.count = 64}, {.strided = true});
    if (team.rank() == 0) {
      expect_error<InvalidArgument>([&] { broadcast(tight, place, 0, stream); },
                                    {"Broadcast", "input has sizes [2, 6] with strides [6, 1]", "must lie alike"});
    }
  });
}

TANDEM_COLLECTIVE_SUITE(StridedTest);

class StridedCapture : public CollectiveTest {};

// Several runs are in flight at once; each turn has fresh data.
TEST_P(StridedCapture, ReplaysAndEagerRunsTakeTurns) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    const int n = team.size();
    const int root = n - 1;
    const CollectiveOptions options{.piece_bytes = 1000, .strided = true};
    AllGather gather(team, {.count = 4096, .dtype = f32}, options);
    AllGather push(team, {.count = 4096, .dtype = f32}, {.algorithm = "push", .strided = true});
    AllToAll exchange(team, {.count = 4096, .dtype = f32}, options);
    Broadcast broadcast(team, {.count = 200'000, .dtype = f32}, options);
    std::uint64_t id = 300;
    for (const auto& [rows, columns] : strided_shapes(n)) {
      const std::int64_t shard_rows = rows / n;
      Strided shard(team, shard_rows, columns, f32, 2, 1);
      Strided gathered(team, rows, columns, f32, 1, 2);
      const SymmetricTensor pushed = symmetric(team, {rows, columns}, f32);
      Strided sent(team, rows, columns, f32, 0, 3);
      Strided received(team, rows, columns, f32, 3, 0);
      Strided told(team, rows, columns, f32, 1, team.rank());
      const auto queue_all = [&] {
        gather(shard.view(), gathered.view(), stream);
        push(shard.view(), pushed, stream);
        exchange(sent.view(), received.view(), stream);
        broadcast(told.view(), root, stream);
      };
      const Graph graph(team.device(), stream, queue_all);
      const std::size_t part = static_cast<std::size_t>(shard_rows * columns) * size_of(f32);
      for (int turn = 0; turn < 4; ++turn) {
        ++id;
        const auto all_of = [&](int rank) { return moved_bytes(id, rank, part * static_cast<std::size_t>(n)); };
        const auto part_of = [&](int rank, int which) {
          const Bytes all = all_of(rank);
          const auto begin = all.begin() + which * static_cast<std::ptrdiff_t>(part);
          return Bytes(begin, begin + static_cast<std::ptrdiff_t>(part));
        };
        Bytes all_gathered;
        Bytes all_received;
        for (int rank = 0; rank < n; ++rank) {
          const Bytes theirs = part_of(rank, 0);
          all_gathered.insert(all_gathered.end(), theirs.begin(), theirs.end());
          const Bytes mine = part_of(rank, team.rank());
          all_received.insert(all_received.end(), mine.begin(), mine.end());
        }
        shard.set(part_of(team.rank(), 0));
        sent.set(all_of(team.rank()));
        for (Strided* const out : {&gathered, &received, &told}) out->poison();
        poison(pushed);
        if (team.rank() == root) told.set(all_of(root));
        const bool eager = turn % 2 == 1;
        for (int run = 0; run < 3; ++run) eager ? queue_all() : graph.launch(stream);
        team.synchronize(stream);
        const std::string what = (eager ? "eager, " : "replayed, ") + describe_case(team, {rows, columns}, f32);
        expect_bytes(gathered.get(), all_gathered, "gathered, " + what);
        expect_bytes(get(pushed), all_gathered, "pushed, " + what);
        expect_bytes(received.get(), all_received, "exchanged, " + what);
        expect_bytes(told.get(), all_of(root), "broadcast, " + what);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(On, StridedCapture,
                         ::testing::Combine(::testing::Values(DeviceType::cuda), ::testing::ValuesIn(team_sizes())),
                         name_of_case);

}  // namespace
}  // namespace tandem::testing

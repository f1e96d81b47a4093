// SPDX-License-Identifier: Apache-2.0
// Runs that follow each other without a pause: reuse of buffers and slots, several plans, teams and streams at once.
#include <array>
#include <chrono>
#include <cmath>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"

#include "collective/support.hpp"

namespace tandem::testing {
namespace {

/// Elements a rank of small and of large operations.
struct Extents {
  std::int64_t small;
  std::int64_t large;
};
constexpr Extents some_pieces{600, 3000};
constexpr std::size_t piece = 4096;

/// Queues operations on one team and one stream, all through the same few tensors, and keeps each result in a place of
/// its own; checks them when the stream has been synchronised. All ranks draw the same operations. Data are whole
/// numbers, so that sums are exact, and each element says where and when it comes from.
class Player {
 public:
  /// For up to `runs` operations between two checks.
  Player(const Team& team, std::uint64_t sequence, int runs, Extents extents = some_pieces)
      : team_(team),
        extents_(extents),
        runs_(runs),
        draws_(sequence),
        salt_(key(seed(), {sequence})),
        stream_(team.device()),
        gather_(team, {.count = extents.large, .dtype = i32}, {.piece_bytes = piece}),
        scatter_(team, {.count = extents.large, .dtype = i32}, {.piece_bytes = piece}),
        reduce_(team, {.count = total(), .dtype = i32}, {.piece_bytes = piece}),
        exchange_(team, {.count = extents.large, .dtype = i32}, {.piece_bytes = piece}),
        broadcast_(team, {.count = total(), .dtype = i32}, {.piece_bytes = piece}),
        symmetric_(symmetric(team, {total()}, i32)),
        small_symmetric_(symmetric(team, {extents.small * team.size()}, i32)),
        input_(team, {total()}, i32, 1),
        output_(team, {total()}, i32, 3),
        inputs_(team.shared_device(), static_cast<std::size_t>(runs * total()) * size_of(i32)),
        outputs_(team.shared_device(), inputs_.bytes()) {
    prepare();
  }

  [[nodiscard]] StreamRef stream() const { return stream_; }

  /// Queues one operation: fresh data into the shared input, the operation, its result out of the shared output.
  void play(std::uint64_t longest_delay_us) {
    if (draws_.below(16) == 0) delay_somebody(team_, stream_, draws_, longest_delay_us);
    const std::int64_t n = team_.size();
    const std::int64_t count = draws_.below(2) == 0 ? extents_.small : extents_.large;
    const auto operation = draws_.below(operations);
    const auto root = static_cast<int>(draws_.below(static_cast<std::uint64_t>(n)));
    const SymmetricTensor& tensor = count == extents_.small ? small_symmetric_ : symmetric_;
    const TensorView whole_input = front(input_.view(), n * count);
    const TensorView whole_output = front(output_.view(), n * count);
    const TensorView part_input = front(input_.view(), count);
    const TensorView part_output = front(output_.view(), count);
    const TensorView local = tensor.local();
    const auto run = [&](const TensorView& from, const TensorView& result, const auto& body) {
      write(from);
      body();
      keep(result);
      results_.push_back({operation, run_++, count, root, result.numel()});
    };
    switch (operation) {
      case 0: return run(part_input, whole_output, [&] { gather_(part_input, whole_output, stream_); });
      case 1: return run(local.narrow(0, team_.rank() * count, count), local, [&] { gather_(tensor, stream_); });
      case 2: return run(part_input, local, [&] { gather_(part_input, tensor, stream_); });
      case 3: return run(whole_input, part_output, [&] { scatter_(whole_input, part_output, stream_); });
      case 4: return run(local, part_output, [&] { scatter_(tensor, part_output, stream_); });
      case 5: return run(whole_input, whole_output, [&] { reduce_(whole_input, whole_output, stream_); });
      case 6: return run(local, local, [&] { reduce_(tensor, stream_); });
      case 7: return run(whole_input, whole_output, [&] { exchange_(whole_input, whole_output, stream_); });
      case 8: return run(whole_input, local, [&] { exchange_(whole_input, tensor, stream_); });
      case 9: return run(whole_input, whole_output, [&] { broadcast_(whole_input, whole_output, root, stream_); });
      default: return run(local, local, [&] { broadcast_(tensor, root, stream_); });
    }
  }

  /// Waits, checks every element of every result so far, and makes fresh data.
  void check() {
    team_.synchronize(stream_);
    std::vector<std::int32_t> all(outputs_.bytes() / sizeof(std::int32_t));
    team_.device().download(all.data(), outputs_.data(), outputs_.bytes());
    for (std::size_t index = 0; index < results_.size(); ++index) {
      const std::int32_t* const got = all.data() + index * static_cast<std::size_t>(total());
      if (!check(results_[index], got)) return;
    }
    results_.clear();
    prepare();
  }

 private:
  static constexpr std::uint64_t operations = 11;

  struct Result {
    std::uint64_t operation;
    std::uint64_t run;
    std::int64_t count;
    int root;
    std::int64_t elements;
  };

  [[nodiscard]] std::int64_t total() const { return extents_.large * team_.size(); }
  [[nodiscard]] static TensorView front(const TensorView& view, std::int64_t count) { return view.narrow(0, 0, count); }

  /// Element i of what `rank` puts into run `run`.
  [[nodiscard]] std::int32_t value(std::uint64_t run, int rank, std::int64_t i) const {
    const std::uint64_t bits =
        random_bits(salt_ + run * 131 + static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(i));
    return static_cast<std::int32_t>(bits % 1000000);
  }

  /// Makes the inputs of the next runs.
  void prepare() {
    std::vector<std::int32_t> all;
    all.reserve(inputs_.bytes() / sizeof(std::int32_t));
    for (int index = 0; index < runs_; ++index) {
      for (std::int64_t i = 0; i < total(); ++i) {
        all.push_back(value(run_ + static_cast<std::uint64_t>(index), team_.rank(), i));
      }
    }
    team_.device().upload(inputs_.data(), all.data(), inputs_.bytes());
  }

  // Both in the stream's order, so that a buffer that is used too early or too late shows.
  void write(const TensorView& view) {
    team_.device().copy(stream_, {.dst = view.data(), .src = place(inputs_), .bytes = view.bytes()});
  }
  void keep(const TensorView& view) {
    team_.device().copy(stream_, {.dst = place(outputs_), .src = view.data(), .bytes = view.bytes()});
    team_.device().fill(stream_, view.data(), std::byte{0xFF}, view.bytes());  // nobody else may still read or write it
  }
  [[nodiscard]] std::int32_t* place(const Buffer& buffer) const {
    return buffer.data_as<std::int32_t>() + static_cast<std::int64_t>(results_.size()) * total();
  }

  [[nodiscard]] bool check(const Result& result, const std::int32_t* got) const {
    for (std::int64_t i = 0; i < result.elements; ++i) {
      const std::int32_t wanted = expected(result, i);
      if (got[i] == wanted) continue;
      ADD_FAILURE() << "operation " << result.operation << " of " << result.count << " elements, run " << result.run
                    << ", rank " << team_.rank() << " of " << team_.size() << ": element " << i << " is " << got[i]
                    << ", not " << wanted;
      return false;
    }
    return true;
  }

  [[nodiscard]] std::int32_t expected(const Result& result, std::int64_t i) const {
    const std::int64_t count = result.count;
    const auto sum = [&](std::int64_t at) {
      std::int32_t all = 0;
      for (int rank = 0; rank < team_.size(); ++rank) all += value(result.run, rank, at);
      return all;
    };
    switch (result.operation) {
      case 0:
      case 1:
      case 2: return value(result.run, static_cast<int>(i / count), i % count);
      case 3:
      case 4: return sum(team_.rank() * count + i);
      case 5:
      case 6: return sum(i);
      case 7:
      case 8: return value(result.run, static_cast<int>(i / count), team_.rank() * count + i % count);
      default: return value(result.run, result.root, i);
    }
  }

  Team team_;
  Extents extents_;
  int runs_;
  Draws draws_;
  std::uint64_t salt_;
  Stream stream_;
  AllGather gather_;
  ReduceScatter scatter_;
  AllReduce reduce_;
  AllToAll exchange_;
  Broadcast broadcast_;
  SymmetricTensor symmetric_;
  SymmetricTensor small_symmetric_;
  GuardedTensor input_;
  GuardedTensor output_;
  Buffer inputs_;
  Buffer outputs_;
  std::uint64_t run_ = 0;
  std::vector<Result> results_;
};

class InterleavingTest : public CollectiveTest {};

constexpr int runs = 200;
constexpr std::uint64_t longest_delay_us = 2000;

void play_and_check(World& world) {
  Player player(world.team(), 1, runs);
  for (int run = 0; run < runs; ++run) player.play(longest_delay_us);
  player.check();
}

TEST_P(InterleavingTest, RunsFollowEachOtherWithoutAPause) { run(play_and_check); }

TEST_P(InterleavingTest, RanksAsThreads) {
  if (device() != DeviceType::host) GTEST_SKIP() << "ranks as threads are for the host";
  run(play_and_check, RankKind::threads);
}

TEST_P(InterleavingTest, TwoTeamsAndTwoStreamsAtOnce) {
  run([](World& world) {
    std::vector<int> backwards;
    for (int rank = world.size() - 1; rank >= 0; --rank) backwards.push_back(rank);
    Player one(world.team(), 3, runs);
    Player two(world.team(backwards), 4, runs);
    Draws order(5);
    for (int run = 0; run < runs; ++run) (order.below(2) == 0 ? one : two).play(longest_delay_us);
    one.check();
    two.check();
  });
}

TEST_P(InterleavingTest, OnePlanOnChangingStreams) {
  run([](World& world) {
    const Team& team = world.team();
    const std::array<Stream, 3> streams{Stream(team.device()), Stream(team.device()), Stream(team.device())};
    AllReduce all_reduce(team, {.count = 5000, .dtype = i32}, {.piece_bytes = 4096});
    GuardedTensor tensor(team, {5000}, i32);
    std::vector<std::int32_t> ones(5000, 1);
    tensor.set(std::as_bytes(std::span(ones)));
    Draws draws(6);
    std::int32_t wanted = 1;
    // Each run multiplies by the number of ranks; one that began before the last one's end would not.
    for (int run = 0; run < 12; ++run) {
      const Stream& stream = streams[draws.below(3)];
      delay_somebody(team, stream, draws, 500);
      all_reduce(tensor.view(), tensor.view(), stream);
      if (run < 8) wanted *= team.size();
      if (run >= 8) {
        // Keep the numbers small: what came before is in order after this run by the plan's own doing.
        wanted = team.size();
        for (const Stream& other : streams) team.synchronize(other);
        tensor.set(std::as_bytes(std::span(ones)));
        all_reduce(tensor.view(), tensor.view(), stream);
        team.synchronize(stream);
      }
    }
    for (const Stream& stream : streams) team.synchronize(stream);
    const std::vector<std::int32_t> all(5000, wanted);
    const auto expected = std::as_bytes(std::span(all));
    expect_bytes(tensor.get(), {expected.begin(), expected.end()}, "the last run");
  });
}

TEST_P(InterleavingTest, ConvenienceFunctionsKeepTheirPlans) {
  run([](World& world) {
    const Team& team = world.team();
    const int n = team.size();
    const Stream stream(team.device());
    GuardedTensor part(team, {100}, i32);
    GuardedTensor whole(team, {100 * n}, i32);
    const SymmetricTensor tensor = symmetric(team, {100 * n}, i32);
    for (std::uint64_t round = 0; round < 3; ++round) {
      std::vector<Bytes> inputs;
      Bytes gathered;
      for (int rank = 0; rank < n; ++rank) {
        inputs.push_back(moved_bytes(20000 + round, rank, 400));
        gathered.insert(gathered.end(), inputs.back().begin(), inputs.back().end());
      }
      part.set(inputs[static_cast<std::size_t>(team.rank())]);
      all_gather(team, part.view(), whole.view(), stream);
      team.synchronize(stream);
      expect_bytes(whole.get(), gathered, "all_gather");
      all_gather(team, part.view(), tensor, stream);
      team.synchronize(stream);
      expect_bytes(get(tensor), gathered, "all_gather into a symmetric tensor");
      broadcast(team, part.view(), n - 1, stream);
      team.synchronize(stream);
      expect_bytes(part.get(), inputs.back(), "broadcast");
      // All ranks hold the same gathered tensor now: part i of everybody's is what rank i gets, n times.
      GuardedTensor exchanged(team, {100 * n}, i32);
      all_to_all(team, whole.view(), exchanged.view(), stream);
      team.synchronize(stream);
      Bytes repeated;
      for (int rank = 0; rank < n; ++rank) {
        const Bytes& mine = inputs[static_cast<std::size_t>(team.rank())];
        repeated.insert(repeated.end(), mine.begin(), mine.end());
      }
      expect_bytes(exchanged.get(), repeated, "all_to_all");

      const std::vector<std::int32_t> ones(static_cast<std::size_t>(100 * n), 1);
      whole.set(std::as_bytes(std::span(ones)));
      all_reduce(team, whole.view(), whole.view(), stream);
      reduce_scatter(team, whole.view(), part.view(), stream);
      team.synchronize(stream);
      const std::vector<std::int32_t> squares(100, n * n);
      const auto expected = std::as_bytes(std::span(squares));
      expect_bytes(part.get(), {expected.begin(), expected.end()}, "all_reduce and reduce_scatter");
    }
  });
}

TANDEM_COLLECTIVE_SUITE(InterleavingTest);

class CollectiveStress : public ::testing::TestWithParam<int> {};

/// 10^5 operations of all kinds over all team sizes, with random ranks delayed at random points; TANDEM_TEST_SCALE
/// scales it.
TEST_P(CollectiveStress, RandomOperationsAndDelays) {
  const auto batches = static_cast<int>(std::ceil(1e5 / 3 / runs * stress_scale()));
  run_ranks(GetParam(),
            [batches](World& world) {
              // Small operations of a piece, large ones of a few.
              Player player(world.team(), 100, runs, {.small = 50, .large = 1500});
              for (int batch = 0; batch < batches; ++batch) {
                for (int run = 0; run < runs; ++run) player.play(500);
                player.check();
              }
            },
            {.limit = std::chrono::seconds(280)});
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveStress, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace tandem::testing

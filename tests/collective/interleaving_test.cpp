// SPDX-License-Identifier: Apache-2.0
// Runs that follow each other without a pause: reuse of buffers and slots, several plans, teams and streams at once.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"

#include "collective/support.hpp"

namespace tandem::testing {
namespace {

constexpr std::int64_t small = 600;   // elements a rank: one piece
constexpr std::int64_t large = 3000;  // several pieces
constexpr std::size_t pieces_of = 4096;

/// Queues operations on one team and one stream, all through the same few tensors, and keeps each result in a place of
/// its own; checks them when the stream has been synchronised. All ranks draw the same operations. Data are whole
/// numbers, so that sums are exact, and each element says where and when it comes from.
class Player {
 public:
  Player(const Team& team, std::uint64_t sequence)
      : team_(team),
        draws_(sequence),
        salt_(sequence),
        stream_(team.device()),
        gather_(team, {.count = large, .dtype = i32}, {.piece_bytes = pieces_of}),
        scatter_(team, {.count = large, .dtype = i32}, {.piece_bytes = pieces_of}),
        reduce_(team, {.count = total(), .dtype = i32}, {.piece_bytes = pieces_of}),
        exchange_(team, {.count = large, .dtype = i32}, {.piece_bytes = pieces_of}),
        broadcast_(team, {.count = total(), .dtype = i32}, {.piece_bytes = pieces_of}),
        symmetric_(symmetric(team, {total()}, i32)),
        small_symmetric_(symmetric(team, {small * team.size()}, i32)),
        input_(team, {total()}, i32, 1),
        output_(team, {total()}, i32, 3) {}

  [[nodiscard]] StreamRef stream() const { return stream_; }

  /// Queues one operation: fresh data into the shared input, the operation, its result out of the shared output.
  void play(std::uint64_t longest_delay_us) {
    if (draws_.below(16) == 0) delay_somebody(team_, stream_, draws_, longest_delay_us);
    const std::int64_t n = team_.size();
    const std::int64_t count = draws_.below(2) == 0 ? small : large;
    const auto operation = draws_.below(10);
    const auto root = static_cast<int>(draws_.below(static_cast<std::uint64_t>(n)));
    const SymmetricTensor& tensor = count == small ? small_symmetric_ : symmetric_;
    Result result{.operation = operation, .run = run_, .count = count, .root = root, .values = {}};
    const TensorView whole_input = front(input_.view(), n * count);
    const TensorView whole_output = front(output_.view(), n * count);
    const TensorView part_input = front(input_.view(), count);
    const TensorView part_output = front(output_.view(), count);
    const TensorView local = tensor.local();
    const auto place = local.narrow(0, team_.rank() * count, count);
    switch (operation) {
      case 0:
        write(part_input);
        gather_(part_input, whole_output, stream_);
        keep(result, whole_output);
        break;
      case 1:
        write(place);
        gather_(tensor, stream_);
        keep(result, local);
        break;
      case 2:
        write(part_input);
        gather_(part_input, tensor, stream_);
        keep(result, local);
        break;
      case 3:
        write(whole_input);
        scatter_(whole_input, part_output, stream_);
        keep(result, part_output);
        break;
      case 4:
        write(local);
        scatter_(tensor, part_output, stream_);
        keep(result, part_output);
        break;
      case 5:
        write(whole_input);
        reduce_(whole_input, whole_output, stream_);
        keep(result, whole_output);
        break;
      case 6:
        write(local);
        reduce_(tensor, stream_);
        keep(result, local);
        break;
      case 7:
        write(whole_input);
        exchange_(whole_input, whole_output, stream_);
        keep(result, whole_output);
        break;
      case 8:
        write(whole_input);
        exchange_(whole_input, tensor, stream_);
        keep(result, local);
        break;
      default:
        write(local);
        broadcast_(tensor, root, stream_);
        keep(result, local);
        break;
    }
    ++run_;
    results_.push_back(std::move(result));
  }

  /// Waits, then checks every element of every result so far.
  void check() {
    team_.synchronize(stream_);
    for (const Result& result : results_) {
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(result.values->size()); ++i) {
        const std::int32_t got = (*result.values)[static_cast<std::size_t>(i)];
        const std::int32_t wanted = expected(result, i);
        if (got != wanted) {
          ADD_FAILURE() << "operation " << result.operation << " of " << result.count << " elements, run " << result.run
                        << ", rank " << team_.rank() << " of " << team_.size() << ": element " << i << " is " << got
                        << ", not " << wanted;
          return;
        }
      }
    }
    results_.clear();
  }

 private:
  struct Result {
    std::uint64_t operation;
    std::uint64_t run;
    std::int64_t count;
    int root;
    std::shared_ptr<std::vector<std::int32_t>> values;
  };

  [[nodiscard]] std::int64_t total() const { return large * team_.size(); }
  [[nodiscard]] static TensorView front(const TensorView& view, std::int64_t count) { return view.narrow(0, 0, count); }

  /// Element i of what `rank` puts into run `run`.
  [[nodiscard]] std::int32_t value(std::uint64_t run, int rank, std::int64_t i) const {
    const std::uint64_t bits =
        random_bits(salt_ * 1000003 + run * 131 + static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(i));
    return static_cast<std::int32_t>(bits % 1000000);
  }

  /// In the stream's order, so that a buffer that is used too early or too late shows.
  void write(const TensorView& view) {
    auto* const to = view.data_as<std::int32_t>();
    team_.device().launch(stream_, [this, to, count = view.numel(), run = run_] {
      for (std::int64_t i = 0; i < count; ++i) to[i] = value(run, team_.rank(), i);
    });
  }
  void keep(Result& result, const TensorView& view) {
    result.values = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(view.numel()));
    team_.device().launch(stream_, [values = result.values, from = view.data_as<std::int32_t>()] {
      std::copy_n(from, values->size(), values->begin());
      std::fill_n(from, values->size(), -1);  // nobody else may still read or write it
    });
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
  std::uint64_t run_ = 0;
  std::vector<Result> results_;
};

class InterleavingTest : public CollectiveTest {};

TEST_P(InterleavingTest, RunsFollowEachOtherWithoutAPause) {
  run_ranks(GetParam(), [](World& world) {
    Player player(world.team(), 1);
    for (int run = 0; run < 200; ++run) player.play(2000);
    player.check();
  });
}

TEST_P(InterleavingTest, RanksAsThreads) {
  run_ranks(GetParam(),
            [](World& world) {
              Player player(world.team(), 2);
              for (int run = 0; run < 200; ++run) player.play(2000);
              player.check();
            },
            {.kind = RankKind::threads});
}

TEST_P(InterleavingTest, TwoTeamsAndTwoStreamsAtOnce) {
  const int n = GetParam();
  run_ranks(n, [n](World& world) {
    std::vector<int> backwards;
    for (int rank = n - 1; rank >= 0; --rank) backwards.push_back(rank);
    Player one(world.team(), 3);
    Player two(world.team(backwards), 4);
    Draws order(5);
    for (int run = 0; run < 200; ++run) (order.below(2) == 0 ? one : two).play(2000);
    one.check();
    two.check();
  });
}

TEST_P(InterleavingTest, OnePlanOnChangingStreams) {
  run_ranks(GetParam(), [](World& world) {
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
  run_ranks(GetParam(), [](World& world) {
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

INSTANTIATE_TEST_SUITE_P(Ranks, InterleavingTest, ::testing::ValuesIn(team_sizes()));

/// 10^5 operations of all kinds with random ranks delayed at random points; TANDEM_TEST_SCALE scales it.
TEST(CollectiveStress, RandomOperationsAndDelays) {
  (void)seed();
  const auto operations = static_cast<int>(std::ceil(1e5 * stress_scale() / 3));
  for (const int n : {2, 3, 4}) {
    run_ranks(n,
              [operations](World& world) {
                Player player(world.team(), 100);
                for (int run = 0; run < operations; ++run) {
                  player.play(500);
                  if (run % 100 == 99) player.check();
                }
                player.check();
              },
              {.limit = std::chrono::seconds(600)});
  }
}

}  // namespace
}  // namespace tandem::testing

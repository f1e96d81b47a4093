// SPDX-License-Identifier: Apache-2.0
// The functions that run a plan cached by the team: each gives the right result, and creates its plan only once.
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"

#include "collective/support.hpp"

namespace tandem::testing {
namespace {

constexpr std::int64_t part = 100;
constexpr std::int64_t uneven = 20;  // by counts, rank j gets this · (j + 1) elements from each rank

/// Every convenience function, each with tensors of its own.
class Functions {
 public:
  explicit Functions(const Team& team)
      : team_(team), ranks_(team.size()), me_(team.rank()), root_(team.size() - 1), stream_(team.device()) {
    gathers();
    scatters();
    reductions();
    exchanges();
    exchanges_by_counts();
    broadcasts();
  }

  void fill(int round) {
    round_ = round;
    for (const Function& function : functions_) {
      put(function.result, [](std::int64_t) { return -1; });
      put(function.input, [&](std::int64_t i) { return value(me_, i); });
    }
  }
  /// Queues all functions. Needs no other rank to take part, unless a plan is created.
  void call() const {
    for (const Function& function : functions_) function.call();
  }
  void check() const {
    team_.synchronize(stream_);
    for (const Function& function : functions_) {
      std::vector<std::int32_t> got(static_cast<std::size_t>(function.result.numel()));
      team_.device().download(got.data(), function.result.data(), function.result.bytes());
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], function.expected(static_cast<std::int64_t>(i))) << function.name << ", element " << i;
      }
    }
  }

 private:
  struct Function {
    std::string name;
    TensorView input;   ///< where this rank's data is
    TensorView result;  ///< may be a part of `input`, or contain it
    std::function<void()> call;
    std::function<std::int32_t(std::int64_t)> expected;
  };

  [[nodiscard]] std::int32_t value(int rank, std::int64_t i) const {
    return static_cast<std::int32_t>(round_ * 1000000 + rank * 10000 + i);
  }
  [[nodiscard]] std::int32_t sum(std::int64_t i) const {
    std::int32_t all = 0;
    for (int rank = 0; rank < ranks_; ++rank) all += value(rank, i);
    return all;
  }

  template <typename Element> void put(const TensorView& view, const Element& element) const {
    std::vector<std::int32_t> all;
    for (std::int64_t i = 0; i < view.numel(); ++i) all.push_back(element(i));
    team_.device().upload(view.data(), all.data(), view.bytes());
  }

  TensorView plain(std::int64_t count) { return plain_.emplace_back(team_, Dims{count}, i32).view(); }
  const SymmetricTensor& shared(std::int64_t count) { return shared_.emplace_back(symmetric(team_, {count}, i32)); }

  void gathers() {
    const auto expected = [this](std::int64_t i) { return value(static_cast<int>(i / part), i % part); };
    const TensorView from = plain(part);
    const TensorView to = plain(part * ranks_);
    const SymmetricTensor& into = shared(part * ranks_);
    const SymmetricTensor& both = shared(part * ranks_);
    add("all_gather", from, to, [=, this] { all_gather(team_, from, to, stream_); }, expected);
    const TensorView other = plain(part);
    add(
        "all_gather into symmetric", other, into.local(), [=, this, &into] { all_gather(team_, other, into, stream_); },
        expected);
    add(
        "all_gather in place", both.local().narrow(0, part * me_, part), both.local(),
        [this, &both] { all_gather(team_, both, stream_); }, expected);
  }

  void scatters() {
    const auto expected = [this](std::int64_t i) { return sum(part * me_ + i); };
    const TensorView from = plain(part * ranks_);
    const TensorView to = plain(part);
    const TensorView out = plain(part);
    const SymmetricTensor& in = shared(part * ranks_);
    const SymmetricTensor& both = shared(part * ranks_);
    add("reduce_scatter", from, to, [=, this] { reduce_scatter(team_, from, to, stream_); }, expected);
    add(
        "reduce_scatter of symmetric", in.local(), out, [=, this, &in] { reduce_scatter(team_, in, out, stream_); },
        expected);
    add(
        "reduce_scatter in place", both.local(), both.local().narrow(0, part * me_, part),
        [this, &both] { reduce_scatter(team_, both, stream_); }, expected);
  }

  void reductions() {
    const auto expected = [this](std::int64_t i) { return sum(i); };
    const TensorView from = plain(part);
    const TensorView to = plain(part);
    const TensorView in = plain(part);
    const TensorView out = plain(part);
    const SymmetricTensor& both = shared(part);
    const SymmetricTensor& left = shared(part);
    const SymmetricTensor& right = shared(part);
    const SymmetricTensor& into = shared(part);
    const SymmetricTensor& of = shared(part);
    add("all_reduce", from, to, [=, this] { all_reduce(team_, from, to, stream_); }, expected);
    add(
        "all_reduce in place", both.local(), both.local(), [this, &both] { all_reduce(team_, both, stream_); },
        expected);
    add(
        "all_reduce between symmetric", left.local(), right.local(),
        [this, &left, &right] { all_reduce(team_, left, right, stream_); }, expected);
    add(
        "all_reduce into symmetric", in, into.local(), [=, this, &into] { all_reduce(team_, in, into, stream_); },
        expected);
    add("all_reduce of symmetric", of.local(), out, [=, this, &of] { all_reduce(team_, of, out, stream_); }, expected);
  }

  void exchanges() {
    const auto expected = [this](std::int64_t i) { return value(static_cast<int>(i / part), part * me_ + i % part); };
    const TensorView from = plain(part * ranks_);
    const TensorView to = plain(part * ranks_);
    const TensorView in = plain(part * ranks_);
    const TensorView out = plain(part * ranks_);
    const SymmetricTensor& into = shared(part * ranks_);
    const SymmetricTensor& of = shared(part * ranks_);
    add("all_to_all", from, to, [=, this] { all_to_all(team_, from, to, stream_); }, expected);
    add(
        "all_to_all into symmetric", in, into.local(), [=, this, &into] { all_to_all(team_, in, into, stream_); },
        expected);
    add("all_to_all of symmetric", of.local(), out, [=, this, &of] { all_to_all(team_, of, out, stream_); }, expected);
  }

  void exchanges_by_counts() {
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int to = 0; to < ranks_; ++to) counts.push_back(uneven * (to + 1));
    }
    const std::int64_t own = uneven * (me_ + 1);
    const std::int64_t before = uneven * me_ * (me_ + 1) / 2;
    const std::int64_t sent = uneven * ranks_ * (ranks_ + 1) / 2;
    const std::int64_t most = uneven * ranks_ * ranks_;
    const auto expected = [this, own, before](std::int64_t i) {
      return value(static_cast<int>(i / own), before + i % own);
    };
    const TensorView from = plain(sent);
    const TensorView to = plain(own * ranks_);
    const TensorView in = plain(sent);
    const TensorView out = plain(own * ranks_);
    const SymmetricTensor& into = shared(most);
    const SymmetricTensor& of = shared(sent);
    add("all_to_all by counts", from, to, [=, this] { all_to_all(team_, from, to, counts, stream_); }, expected);
    add(
        "all_to_all by counts into symmetric", in, into.local().narrow(0, 0, own * ranks_),
        [=, this, &into] { all_to_all(team_, in, into, counts, stream_); }, expected);
    add(
        "all_to_all by counts of symmetric", of.local(), out,
        [=, this, &of] { all_to_all(team_, of, out, counts, stream_); }, expected);
  }

  void broadcasts() {
    const auto expected = [this](std::int64_t i) { return value(root_, i); };
    const TensorView place = plain(part);
    const TensorView from = plain(part);
    const TensorView to = plain(part);
    const TensorView in = plain(part);
    const SymmetricTensor& both = shared(part);
    const SymmetricTensor& into = shared(part);
    add("broadcast in place", place, place, [=, this] { broadcast(team_, place, root_, stream_); }, expected);
    add("broadcast", from, to, [=, this] { broadcast(team_, from, to, root_, stream_); }, expected);
    add(
        "broadcast in place of symmetric", both.local(), both.local(),
        [this, &both] { broadcast(team_, both, root_, stream_); }, expected);
    add(
        "broadcast into symmetric", in, into.local(), [=, this, &into] { broadcast(team_, in, into, root_, stream_); },
        expected);
  }

  void add(std::string name, const TensorView& input, const TensorView& result, std::function<void()> call,
           std::function<std::int32_t(std::int64_t)> expected) {
    functions_.push_back({std::move(name), input, result, std::move(call), std::move(expected)});
  }

  Team team_;
  int ranks_;
  int me_;
  int root_;
  int round_ = 0;
  Stream stream_;
  std::deque<GuardedTensor> plain_;
  std::deque<SymmetricTensor> shared_;
  std::vector<Function> functions_;
};

class ConvenienceTest : public CollectiveTest {};

TEST_P(ConvenienceTest, FunctionsKeepTheirPlans) {
  run([](World& world) {
    const Team& team = world.team();
    Functions functions(team);
    for (int round = 0; round < 3; ++round) {
      functions.fill(round);
      team.barrier();
      // Creating a plan is collective, and happens only in the first round: later each rank calls on its own.
      for (int turn = 0; turn < team.size(); ++turn) {
        if (round == 0 ? turn == 0 : turn == team.rank()) functions.call();
        if (round != 0) team.barrier();
      }
      functions.check();
    }
  });
}

// A plan is one dtype's, and takes counts up to a power of two.
TEST_P(ConvenienceTest, FunctionsTakeSeveralDtypesAndCounts) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    std::uint64_t id = 9000;
    for (const auto& [dtype, count] : std::initializer_list<std::pair<DType, std::int64_t>>{
             {i32, 100}, {bf16, 100}, {f32, 100}, {bf16, 70'001}, {i32, 70'001}, {f32, 99}}) {
      ++id;
      std::vector<std::vector<double>> inputs;
      Bytes all;
      for (int rank = 0; rank < team.size(); ++rank) {
        inputs.push_back(summed_values(id, rank, count, dtype));
        const Bytes each = stored(inputs.back(), dtype);
        all.insert(all.end(), each.begin(), each.end());
      }
      const Bytes mine = stored(inputs[static_cast<std::size_t>(team.rank())], dtype);
      const std::string what = describe_case(team, {count}, dtype);
      GuardedTensor sum(team, {count}, dtype);
      sum.set(mine);
      GuardedTensor shard(team, {count}, dtype, 1);
      shard.set(mine);
      GuardedTensor gathered(team, {team.size() * count}, dtype);
      all_reduce(team, sum.view(), sum.view(), stream);
      all_gather(team, shard.view(), gathered.view(), stream);
      team.synchronize(stream);
      expect_sums(sum.get(), expected_sum(inputs, dtype), "all_reduce of " + what);
      expect_bytes(gathered.get(), all, "all_gather of " + what);
    }
  });
}

TANDEM_COLLECTIVE_SUITE(ConvenienceTest);

}  // namespace
}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
// Linear layers of two teams of the same ranks, on streams that are not ordered with each other.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "tandem/linear/linear_reduce_scatter.hpp"

#include "linear/tensors.hpp"
#include "support/devices.hpp"

namespace tandem::testing {
namespace {

/// A layer on a team of its own, with sums so large that kernels that wait for each other follow its GEMM.
class Layer {
 public:
  Layer(World& world, const LinearSpec& spec, std::uint64_t number)
      : number_(number),
        team_(world.team({0, 1})),
        plan_(team_, spec, {.algorithm = "sequence"}),
        x_(own(1, plan_.spec().m)),
        weight_(own(2, plan_.spec().n)),
        y_(team_, {rows_of_this_rank().count, plan_.spec().n}, bf16),
        stream_(world.device()) {
    const bool meets = plan_.describe().find("communication: one kernel") != std::string::npos;
    EXPECT_EQ(meets, world.device().meets()) << plan_.describe();
  }

  void start() {
    y_.poison();
    plan_(x_.view(), weight_.view(), y_.view(), stream_);
  }
  void start_late() {
    team_.device().launch(stream_, [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
    start();
  }
  [[nodiscard]] Bytes result() {
    team_.synchronize(stream_);
    return y_.get();
  }
  /// Fails the test unless all of it is written, and its first and last rows are right.
  void check(const Bytes& got) const {
    const std::vector<double> elements = load(got.data(), plan_.spec().n * rows_of_this_rank().count, bf16);
    EXPECT_EQ(std::ranges::count_if(elements, [](double each) { return std::isnan(each); }), 0) << "still poisoned";
    const LinearSpec& spec = plan_.spec();
    std::vector<Matrix> xs;
    std::vector<Matrix> weights;
    for (int rank = 0; rank < team_.size(); ++rank) {
      xs.push_back(matrix(rank, 1, spec.m));
      weights.push_back(matrix(rank, 2, spec.n));
    }
    const Matrix x = joined(xs);
    const Matrix b = joined(weights).transposed();
    const Shard own = rows_of_this_rank();
    constexpr std::int64_t some = 16;
    for (const std::int64_t before : {std::int64_t{0}, own.count - some}) {
      const Matrix rows = x.part({own.begin + before, some});
      const Expected expected = expected_product({.m = some,
                                                  .n = spec.n,
                                                  .k = x.columns,
                                                  .a = rows.values,
                                                  .b = b.values,
                                                  .parts = {spec.k, spec.k},
                                                  .travels = bf16,
                                                  .dtype = bf16,
                                                  .rounds_between = true});
      const std::size_t at = static_cast<std::size_t>(before * spec.n) * size_of(bf16);
      const Comparison compared = compare(expected, got.data() + at);
      EXPECT_EQ(compared.wrong, 0) << to_string(compared) << "\n" << plan_.describe();
    }
  }

 private:
  [[nodiscard]] Shard rows_of_this_rank() const { return shard_of(plan_.spec().m, team_.size(), team_.rank()); }
  [[nodiscard]] Matrix matrix(int rank, std::uint64_t which, std::int64_t rows) const {
    return Matrix::random(key(seed(), {number_, static_cast<std::uint64_t>(rank), which}), rows, plan_.spec().k, bf16);
  }
  [[nodiscard]] GuardedTensor own(std::uint64_t which, std::int64_t rows) const {
    return matrix(team_.rank(), which, rows).on(team_.shared_device(), bf16);
  }

  std::uint64_t number_;
  Team team_;
  LinearReduceScatter plan_;
  GuardedTensor x_;
  GuardedTensor weight_;
  GuardedTensor y_;
  Stream stream_;
};

class LinearTeams : public OnEachDevice {};

// Each rank is late for a different team. When its GEMM finally starts, the other team's kernel is resident and waits
// for the other rank, whose GEMM is just as late: a deadlock if waiting kernels left no room for GEMMs.
TEST_P(LinearTeams, AProductFindsRoomBesideAnotherTeamsWait) {
  const auto check = [](World& world, const LinearSpec& spec) {
    std::array<Layer, 2> layers{Layer(world, spec, 0), Layer(world, spec, 1)};
    std::array<Bytes, 2> alone;
    for (std::size_t which = 0; which < layers.size(); ++which) {
      layers[which].start();
      alone[which] = layers[which].result();
      layers[which].check(alone[which]);
    }
    EXPECT_FALSE(alone[0] == alone[1]);
    for (int run = 0; run < 3; ++run) {
      for (std::size_t which = 0; which < layers.size(); ++which) {
        if (static_cast<int>(which) == world.rank()) {
          layers[which].start();
        } else {
          layers[which].start_late();
        }
      }
      for (std::size_t which = 0; which < layers.size(); ++which) {
        EXPECT_TRUE(layers[which].result() == alone[which])
            << to_string(spec) << ", run " << run << ", layer " << which;
      }
    }
  };
  on(2, [&](World& world) {
    // The GEMM libraries choose different kernels for these sizes.
    check(world, {.m = beyond_kernels(world, 4096), .n = 2048, .k = 64, .dtype = bf16});
    check(world, {.m = beyond_kernels(world, 8400), .n = 520, .k = 8, .dtype = bf16});
    check(world, {.m = beyond_kernels(world, 1024), .n = 8192, .k = 128, .dtype = bf16});
  });
}

TANDEM_ON_EACH_DEVICE(LinearTeams);

}  // namespace
}  // namespace tandem::testing

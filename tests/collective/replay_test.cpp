// SPDX-License-Identifier: Apache-2.0
// Collectives in a CUDA graph that is replayed thousands of times.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/device.hpp"

#include "collective/support.hpp"
#include "support/devices.hpp"
#include "support/replayed_runs.hpp"

namespace tandem::testing {
namespace {

class ReplayStress : public OnEachDevice {};

constexpr std::size_t piece = 4096;

/// Every collective of up to `count` elements a rank, by each algorithm, from and into plain and symmetric tensors.
class Collectives {
 public:
  Collectives(const Team& team, ReplayedRuns& runs, std::int64_t count)
      : team_(team), runs_(runs), count_(count), total_(count * team.size()) {
    gathers();
    scatters();
    reduces();
    exchanges();
    broadcasts();
  }

 private:
  using Inputs = std::shared_ptr<const std::array<GuardedTensor, 2>>;

  /// Two sets of whole numbers of this rank's own.
  [[nodiscard]] Inputs inputs(std::int64_t count) {
    return std::make_shared<const std::array<GuardedTensor, 2>>(std::array{input(count), input(count)});
  }
  [[nodiscard]] GuardedTensor input(std::int64_t count) {
    const std::uint64_t own = key(seed(), {++inputs_, static_cast<std::uint64_t>(team_.rank())});
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<double>(random_bits(own, static_cast<std::uint64_t>(i)) % 9) - 4);
    }
    GuardedTensor tensor(team_, {count}, f32);
    tensor.set(std::span<const double>(values));
    return tensor;
  }
  void copy(const TensorView& from, const TensorView& into) {
    team_.device().copy(runs_.stream(), {.dst = into.data(), .src = from.data(), .bytes = into.bytes()});
  }

  [[nodiscard]] static CollectiveOptions by(const char* algorithm) {
    return {.algorithm = algorithm, .piece_bytes = piece};
  }
  /// From plain tensors into plain ones, with each of the options: `run(plan, input, output)`.
  template <typename Plan, typename Spec, typename Run>
  void plain(const Spec& spec, std::int64_t given, std::int64_t made, const std::vector<CollectiveOptions>& all,
             const Run& run) {
    for (const CollectiveOptions& options : all) {
      const auto plan = std::make_shared<Plan>(team_, spec, options);
      const auto output = std::make_shared<GuardedTensor>(team_, Dims{made}, f32);
      runs_.add(plan->describe(), output->view(), [this, plan, output, run, in = inputs(given)](int set) {
        run(*plan, in->at(static_cast<std::size_t>(set)).view(), output->view());
      });
    }
  }
  /// In place of a symmetric tensor, whose `made` elements from `begin` on are the result: `run(plan, tensor)`.
  template <typename Plan, typename Spec, typename Run>
  void in_place(const Spec& spec, std::int64_t begin, std::int64_t made, const char* algorithm, const Run& run) {
    const auto plan = std::make_shared<Plan>(team_, spec, CollectiveOptions{.algorithm = algorithm});
    const SymmetricTensor tensor = symmetric(team_, {total_}, f32);
    runs_.add(plan->describe() + " in place", tensor.local().narrow(0, begin, made),
              [this, plan, tensor, run, in = inputs(total_)](int set) {
                copy(in->at(static_cast<std::size_t>(set)).view(), tensor.local());
                run(*plan, tensor);
              });
  }

  void gathers() {
    const AllGatherSpec spec{.count = count_, .dtype = f32};
    std::vector<CollectiveOptions> options = plain_or_mail_options(team_, piece);
    options.push_back(by("pull"));
    plain<AllGather>(spec, count_, total_, options,
                     [this](AllGather& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
    in_place<AllGather>(spec, 0, total_, "push",
                        [this](AllGather& plan, const auto& tensor) { plan(tensor, runs_.stream()); });
    in_place<AllGather>(spec, 0, total_, "direct_kernel",
                        [this](AllGather& plan, const auto& tensor) { plan(tensor, runs_.stream()); });
    in_place<AllGather>(spec, 0, total_, "push", [this](AllGather& plan, const SymmetricTensor& tensor) {
      plan.start(tensor, runs_.stream());
      for (int rank = 0; rank < team_.size(); rank += 2) plan.wait_shard(runs_.stream(), rank);
      plan.finish(runs_.stream());
    });
  }
  void scatters() {
    const ReduceScatterSpec spec{.count = count_, .dtype = f32};
    std::vector<CollectiveOptions> options = plain_or_mail_options(team_, piece);
    options.push_back(by("staged"));
    plain<ReduceScatter>(
        spec, total_, count_, options,
        [this](ReduceScatter& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
    for (const char* algorithm : {"direct", "direct_kernel"}) {
      in_place<ReduceScatter>(spec, count_ * team_.rank(), count_, algorithm,
                              [this](ReduceScatter& plan, const auto& tensor) { plan(tensor, runs_.stream()); });
    }
  }
  void reduces() {
    const AllReduceSpec spec{.count = total_, .dtype = f32};
    std::vector<CollectiveOptions> options = plain_or_mail_options(team_, piece);
    for (const char* algorithm : {"one_shot", "two_shot"}) options.push_back(by(algorithm));
    if (team_.device().exchanges_mail()) options.push_back(by("one_kernel_two_shot"));
    plain<AllReduce>(spec, total_, total_, options,
                     [this](AllReduce& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
    for (const char* algorithm : {"two_shot", "direct_kernel"}) {
      in_place<AllReduce>(spec, 0, total_, algorithm,
                          [this](AllReduce& plan, const auto& tensor) { plan(tensor, runs_.stream()); });
    }
  }
  void exchanges() {
    plain<AllToAll>(AllToAllSpec{.count = count_, .dtype = f32}, total_, total_, plain_options(team_, piece),
                    [this](AllToAll& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
  }
  void broadcasts() {
    const BroadcastSpec spec{.count = total_, .dtype = f32};
    plain<Broadcast>(spec, total_, total_, plain_options(team_, piece),
                     [this](Broadcast& plan, const auto& from, const auto& into) {
                       plan(from, into, team_.size() - 1, runs_.stream());
                     });
    in_place<Broadcast>(spec, 0, total_, "auto",
                        [this](Broadcast& plan, const auto& tensor) { plan(tensor, 0, runs_.stream()); });
  }

  Team team_;
  ReplayedRuns& runs_;
  std::int64_t count_;
  std::int64_t total_;
  std::uint64_t inputs_ = 0;
};

/// 10^4 replays of every collective by each algorithm, so small that one letter is enough and of some pieces, over the
/// node's GPUs (up to 4) or two ranks that share one; TANDEM_TEST_SCALE scales it.
TEST_P(ReplayStress, EveryCollective) {
  const auto replays = static_cast<int>(std::ceil(1e4 * stress_scale()));
  on(std::clamp(device_count(GetParam()), 2, 4),
     [replays](World& world) {
       ReplayedRuns runs(world.team());
       const Collectives small(world.team(), runs, 60);
       const Collectives large(world.team(), runs, 3000);
       runs.replay(replays);
     },
     {.limit = std::chrono::seconds(580)});
}

INSTANTIATE_TEST_SUITE_P(Device, ReplayStress, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing

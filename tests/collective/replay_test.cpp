// SPDX-License-Identifier: Apache-2.0
// Collectives in a CUDA graph that is replayed thousands of times.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <span>
#include <string>
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

/// Collectives of up to `count` elements a rank.
class Collectives {
 public:
  Collectives(const Team& team, ReplayedRuns& runs, std::int64_t count, DType dtype = f32)
      : team_(team), runs_(runs), count_(count), total_(count * team.size()), dtype_(dtype) {}

  /// Every collective, by each algorithm, with plain and symmetric tensors.
  void add_all() {
    gathers();
    scatters();
    reduces();
    exchanges();
    broadcasts();
  }
  /// The collectives on symmetric tensors, by the algorithms that are meant for large messages.
  void add_large() {
    const Inputs shared = inputs(total_);
    for (const char* algorithm : {"push", "direct_kernel"}) gather_in_place(algorithm, shared);
    for (const char* algorithm : {"direct", "direct_kernel"}) scatter_in_place(algorithm, shared);
    for (const char* algorithm : {"two_shot", "direct_kernel"}) reduce_in_place(algorithm, shared);
    for (const char* algorithm : {"push", "direct_kernel"}) {
      into_symmetric(algorithm, total_, "", shared,
                     [this](AllToAll& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
      broadcast_in_place(algorithm, shared);
    }
    for (const char* algorithm : {"pull", "direct_kernel"}) {
      out_of_symmetric(algorithm, total_, "", shared, [this](AllToAll& plan, const auto& from, const auto& into) {
        plan(from, into, runs_.stream());
      });
    }
  }

 private:
  using Inputs = std::shared_ptr<const std::array<GuardedTensor, 2>>;

  /// Two sets of whole numbers, different on each rank.
  [[nodiscard]] Inputs inputs(std::int64_t count) {
    return std::make_shared<const std::array<GuardedTensor, 2>>(std::array{input(count), input(count)});
  }
  [[nodiscard]] GuardedTensor input(std::int64_t count) {
    const std::uint64_t own = key(seed(), {++inputs_, static_cast<std::uint64_t>(team_.rank())});
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<double>(random_bits(own, static_cast<std::uint64_t>(i)) % 9) - 4);
    }
    GuardedTensor tensor(team_, {count}, dtype_);
    tensor.set(std::span<const double>(values));
    return tensor;
  }
  [[nodiscard]] static TensorView of(const Inputs& inputs, int set) {
    return inputs->at(static_cast<std::size_t>(set)).view();
  }
  void copy(const TensorView& from, const TensorView& into) {
    team_.device().copy(runs_.stream(), {.dst = into.data(), .src = from.data(), .bytes = into.bytes()});
  }

  [[nodiscard]] static CollectiveOptions by(const char* algorithm) {
    return {.algorithm = algorithm, .piece_bytes = piece};
  }
  /// Adds runs between plain tensors, one with each of the options: `run(plan, input, output)`.
  template <typename Plan, typename Spec, typename Run>
  void plain(const Spec& spec, std::int64_t given, std::int64_t made, const std::vector<CollectiveOptions>& all,
             const Run& run) {
    for (const CollectiveOptions& options : all) {
      const auto plan = std::make_shared<Plan>(team_, spec, options);
      const auto output = std::make_shared<GuardedTensor>(team_, Dims{made}, dtype_);
      runs_.add(plan->describe(), output->view(),
                [plan, output, run, in = inputs(given)](int set) { run(*plan, of(in, set), output->view()); });
    }
  }
  /// Adds an in-place run on a symmetric tensor; its `made` elements from `begin` are the result: `run(plan, tensor)`.
  template <typename Plan, typename Spec, typename Run>
  void in_place(const Spec& spec, std::int64_t begin, std::int64_t made, const char* algorithm, const Inputs& in,
                const Run& run) {
    const auto plan = std::make_shared<Plan>(team_, spec, CollectiveOptions{.algorithm = algorithm});
    const SymmetricTensor tensor = symmetric(team_, {total_}, dtype_);
    runs_.add(plan->describe() + " in place", tensor.local().narrow(0, begin, made),
              [this, plan, tensor, run, in](int set) {
                copy(of(in, set), tensor.local());
                run(*plan, tensor);
              });
  }

  void gather_in_place(const char* algorithm, const Inputs& in) {
    in_place<AllGather>(AllGatherSpec{.count = count_, .dtype = dtype_}, 0, total_, algorithm, in,
                        [this](AllGather& plan, const auto& tensor) { plan(tensor, runs_.stream()); });
  }
  void gathers() {
    const AllGatherSpec spec{.count = count_, .dtype = dtype_};
    std::vector<CollectiveOptions> options = plain_or_mail_options(team_, piece);
    options.push_back(by("staged"));
    plain<AllGather>(spec, count_, total_, options,
                     [this](AllGather& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
    for (const char* algorithm : {"push", "direct_kernel"}) gather_in_place(algorithm, inputs(total_));
    in_place<AllGather>(spec, 0, total_, "push", inputs(total_), [this](AllGather& plan, const auto& tensor) {
      plan.start(tensor, runs_.stream());
      for (int rank = 0; rank < team_.size(); rank += 2) plan.wait_shard(rank, runs_.stream());
      plan.finish(runs_.stream());
    });
  }
  void scatter_in_place(const char* algorithm, const Inputs& in) {
    in_place<ReduceScatter>(ReduceScatterSpec{.count = count_, .dtype = dtype_}, count_ * team_.rank(), count_,
                            algorithm, in,
                            [this](ReduceScatter& plan, const auto& tensor) { plan(tensor, runs_.stream()); });
  }
  void scatters() {
    std::vector<CollectiveOptions> options = plain_or_mail_options(team_, piece);
    for (const char* algorithm : {"staged", "push"}) options.push_back(by(algorithm));
    plain<ReduceScatter>(
        ReduceScatterSpec{.count = count_, .dtype = dtype_}, total_, count_, options,
        [this](ReduceScatter& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
    for (const char* algorithm : {"direct", "direct_kernel"}) scatter_in_place(algorithm, inputs(total_));
  }
  void reduce_in_place(const char* algorithm, const Inputs& in) {
    in_place<AllReduce>(AllReduceSpec{.count = total_, .dtype = dtype_}, 0, total_, algorithm, in,
                        [this](AllReduce& plan, const auto& tensor) { plan(tensor, runs_.stream()); });
  }
  void reduces() {
    std::vector<CollectiveOptions> options = plain_or_mail_options(team_, piece);
    for (const char* algorithm : {"one_shot", "two_shot"}) options.push_back(by(algorithm));
    if (team_.device().exchanges_mail()) options.push_back(by("one_kernel_two_shot"));
    plain<AllReduce>(AllReduceSpec{.count = total_, .dtype = dtype_}, total_, total_, options,
                     [this](AllReduce& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
    for (const char* algorithm : {"two_shot", "direct_kernel"}) reduce_in_place(algorithm, inputs(total_));
  }

  /// Equal parts, and parts by counts, between plain tensors, into symmetric ones and out of them.
  void exchanges() {
    const AllToAllSpec spec{.count = count_, .dtype = dtype_};
    std::vector<CollectiveOptions> options = plain_or_mail_options(team_, piece);
    options.push_back(by("staged"));
    plain<AllToAll>(spec, total_, total_, options,
                    [this](AllToAll& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
    std::vector<std::int64_t> counts;
    for (int from = 0; from < team_.size(); ++from) {
      for (int to = 0; to < team_.size(); ++to) counts.push_back(count_ * ((from + 2 * to) % 3) / 2);
    }
    std::int64_t sent = 0;
    std::int64_t got = 0;
    for (int peer = 0; peer < team_.size(); ++peer) {
      sent += counts[static_cast<std::size_t>(team_.rank() * team_.size() + peer)];
      got += counts[static_cast<std::size_t>(peer * team_.size() + team_.rank())];
    }
    plain<AllToAll>(spec, sent, got, options, [this, counts](AllToAll& plan, const auto& from, const auto& into) {
      plan(from, into, counts, runs_.stream());
    });
    for (const char* algorithm : {"auto", "direct_kernel"}) {
      into_symmetric(algorithm, total_, "", inputs(total_),
                     [this](AllToAll& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
      into_symmetric(algorithm, got, " by counts", inputs(sent),
                     [this, counts](AllToAll& plan, const auto& from, const auto& into) {
                       plan(from, into, counts, runs_.stream());
                     });
      out_of_symmetric(
          algorithm, total_, "", inputs(total_),
          [this](AllToAll& plan, const auto& from, const auto& into) { plan(from, into, runs_.stream()); });
      out_of_symmetric(algorithm, got, " by counts", inputs(total_),
                       [this, counts](AllToAll& plan, const auto& from, const auto& into) {
                         plan(from, into, counts, runs_.stream());
                       });
    }
  }
  [[nodiscard]] std::shared_ptr<AllToAll> exchange_by(const char* algorithm) {
    return std::make_shared<AllToAll>(team_, AllToAllSpec{.count = count_, .dtype = dtype_},
                                      CollectiveOptions{.algorithm = algorithm});
  }
  template <typename Run>
  void into_symmetric(const char* algorithm, std::int64_t made, const char* how, const Inputs& in, const Run& run) {
    const auto plan = exchange_by(algorithm);
    const SymmetricTensor tensor = symmetric(team_, {total_}, dtype_);
    runs_.add(plan->describe() + how + " into symmetric", tensor.local().narrow(0, 0, made),
              [plan, tensor, run, in](int set) { run(*plan, of(in, set), tensor); });
  }
  template <typename Run>
  void out_of_symmetric(const char* algorithm, std::int64_t made, const char* how, const Inputs& in, const Run& run) {
    const auto plan = exchange_by(algorithm);
    const SymmetricTensor tensor = symmetric(team_, {total_}, dtype_);
    const auto output = std::make_shared<GuardedTensor>(team_, Dims{made}, dtype_);
    runs_.add(plan->describe() + how + " out of symmetric", output->view(),
              [this, plan, tensor, output, run, in](int set) {
                copy(of(in, set), tensor.local());
                run(*plan, tensor, output->view());
              });
  }

  void broadcast_in_place(const char* algorithm, const Inputs& in) {
    in_place<Broadcast>(BroadcastSpec{.count = total_, .dtype = dtype_}, 0, total_, algorithm, in,
                        [this](Broadcast& plan, const auto& tensor) { plan(tensor, 0, runs_.stream()); });
  }
  void broadcasts() {
    const BroadcastSpec spec{.count = total_, .dtype = dtype_};
    std::vector<CollectiveOptions> options = plain_or_mail_options(team_, piece);
    options.push_back(by("staged"));
    plain<Broadcast>(spec, total_, total_, options, [this](Broadcast& plan, const auto& from, const auto& into) {
      plan(from, into, team_.size() - 1, runs_.stream());
    });
    // Runs with alternating roots: the root of one run is a reader in the next.
    plain<Broadcast>(spec, total_, total_, options, [this](Broadcast& plan, const auto& from, const auto& into) {
      for (const int root : {0, team_.size() - 1, 0}) plan(from, into, root, runs_.stream());
    });
    for (const char* algorithm : {"auto", "push", "direct_kernel"}) broadcast_in_place(algorithm, inputs(total_));
  }

  Team team_;
  ReplayedRuns& runs_;
  std::int64_t count_;
  std::int64_t total_;
  DType dtype_;
  std::uint64_t inputs_ = 0;
};

int replays_of(double all) { return static_cast<int>(std::ceil(all * stress_scale())); }

/// On the node's GPUs (up to 4), or two ranks that share one.
int ranks_on(DeviceType type) { return std::clamp(device_count(type), 2, 4); }

constexpr std::chrono::seconds limit{580};

/// 10^4 replays of every collective by each algorithm, with messages that fit in one letter and messages of several
/// pieces. TANDEM_TEST_SCALE scales the number of replays, here and in the other tests.
TEST_P(ReplayStress, EveryCollective) {
  const int replays = replays_of(1e4);
  on(ranks_on(GetParam()),
     [replays](World& world) {
       ReplayedRuns runs(world.team());
       Collectives small(world.team(), runs, 60);
       small.add_all();
       Collectives large(world.team(), runs, 3000);
       large.add_all();
       runs.replay(replays);
     },
     {.limit = limit});
}

TEST_P(ReplayStress, EveryCollectiveInBf16BesideAnotherTeams) {
  const int replays = replays_of(1e4);
  on(ranks_on(GetParam()),
     [replays](World& world) {
       std::vector<int> backwards;
       for (int rank = world.size() - 1; rank >= 0; --rank) backwards.push_back(rank);
       const Team other = world.team(backwards);
       ReplayedRuns one_teams(world.team());
       ReplayedRuns other_teams(other);
       Collectives one(world.team(), one_teams, 1500, bf16);
       one.add_all();
       Collectives another(other, other_teams, 700);
       another.add_all();
       ReplayedRuns::replay_beside(std::array{&one_teams, &other_teams}, replays);
     },
     {.limit = limit});
}

/// 10^4 replays with slightly more than 2 MiB per rank: with three ranks, more than "auto" sends through mailboxes.
TEST_P(ReplayStress, MessagesThatMailboxesDoNotTake) {
  const int replays = replays_of(1e4);
  on(ranks_on(GetParam()),
     [replays](World& world) {
       ReplayedRuns runs(world.team());
       Collectives large(world.team(), runs, (2 << 20) / 4 + 1000);
       large.add_large();
       runs.replay(replays);
     },
     {.limit = limit});
}

/// 500 replays with larger messages: 16 MiB per rank.
TEST_P(ReplayStress, LargeMessages) {
  const int replays = replays_of(500);
  on(ranks_on(GetParam()),
     [replays](World& world) {
       ReplayedRuns runs(world.team());
       Collectives large(world.team(), runs, 4 << 20);
       large.add_large();
       runs.replay(replays);
     },
     {.limit = limit});
}

INSTANTIATE_TEST_SUITE_P(Device, ReplayStress, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#include "support/replayed_runs.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>
#include <utility>

#include "tandem/device/device.hpp"
#include "tandem/device/reduce.hpp"

#include "support/draws.hpp"
#include "support/oracle.hpp"
#include "support/ranks.hpp"

namespace tandem::testing {
namespace {

constexpr int replays_between_checks = 500;
constexpr int replays_in_flight = 50;
constexpr std::uint64_t replays_an_eager_turn = 10;
constexpr std::uint64_t calls_a_delay = 64;
constexpr std::uint64_t longest_delay_us = 300;

std::vector<float> floats(const GuardedTensor& tensor) {
  const Bytes bytes = tensor.get();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Sleeps for a while in one of `calls_a_delay` calls; every rank has its own sequence.
class Delays {
 public:
  explicit Delays(std::uint64_t key) : key_(key) {}
  void operator()() {
    const std::uint64_t bits = random_bits(key_, call_++);
    if (bits % calls_a_delay != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds((bits >> 8) % longest_delay_us));
  }

 private:
  std::uint64_t key_;
  std::uint64_t call_ = 0;
};

}  // namespace

ReplayedRuns::ReplayedRuns(const Team& team) : team_(team), stream_(team.device()) {}

void ReplayedRuns::add(std::string what, const TensorView& result, std::function<void(int set)> run) {
  const auto tensors = [&] {
    return std::array{GuardedTensor(team_, result.sizes(), f32), GuardedTensor(team_, result.sizes(), f32)};
  };
  GuardedTensor widened(team_, result.dtype() == f32 ? Dims{0} : result.sizes(), f32);
  runs_.push_back({std::move(what), result, std::move(run), std::move(widened), tensors(), tensors()});
}

const void* ReplayedRuns::in_f32(const Run& run) {
  if (run.result.dtype() == f32) return run.result.data();
  void* const widened = run.widened.view().data();
  team_.device().map(stream_, {.kind = MapKind::cast,
                               .out = widened,
                               .x = run.result.data(),
                               .count = run.result.numel(),
                               .dtype = run.result.dtype(),
                               .out_dtype = f32});
  return widened;
}

void ReplayedRuns::run_eagerly() {
  for (const Run& run : runs_) {
    for (int set = 0; set < sets; ++set) {
      const auto at = static_cast<std::size_t>(set);
      team_.device().fill(stream_, run.result.data(), poison_of(run.result.dtype()), run.result.bytes());
      run.queue(set);
      const TensorView once = run.eager[at].view();
      team_.device().copy(stream_, {.dst = once.data(), .src = in_f32(run), .bytes = once.bytes()});
      team_.device().fill(stream_, run.total[at].view().data(), std::byte{0}, once.bytes());
    }
  }
  team_.synchronize(stream_);
}

void ReplayedRuns::queue_with_totals(const Run& run, std::uint64_t delays) {
  team_.device().launch(stream_, Delays(delays));
  for (int set = 0; set < sets; ++set) {
    // Elements that a run fails to write show in all later totals, since NaNs persist.
    team_.device().fill(stream_, run.result.data(), poison_of(run.result.dtype()), run.result.bytes());
    run.queue(set);
    void* const total = run.total[static_cast<std::size_t>(set)].view().data();
    const std::array<const void*, 2> sources{total, in_f32(run)};
    team_.device().reduce(stream_,
                          {.sources = sources, .destinations = std::span(&total, 1), .count = run.result.numel()});
  }
}

void ReplayedRuns::queue_all(std::uint64_t turn) {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    queue_with_totals(runs_[i], key(seed(), {i, static_cast<std::uint64_t>(team_.rank()), turn}));
  }
}

Graph ReplayedRuns::capture() {
  run_eagerly();
  return {team_.device(), stream_, [this] { queue_all(0); }};
}

void ReplayedRuns::replay_beside(std::span<ReplayedRuns* const> all, int times) {
  std::vector<Graph> graphs;
  for (ReplayedRuns* const runs : all) graphs.push_back(runs->capture());
  Draws draws(1);
  bool right = true;  // after a failure a rank continues, since the others wait for it
  int checked = 0;
  for (int replay = 1; replay <= times; ++replay) {
    const std::uint64_t first = draws.below(all.size());
    for (std::uint64_t i = 0; i < all.size(); ++i) {
      const std::size_t which = (first + i) % all.size();
      if (draws.below(replays_an_eager_turn) == 0) {
        all[which]->queue_all(static_cast<std::uint64_t>(replay));
      } else {
        graphs[which].launch(all[which]->stream_);
      }
    }
    if (replay % replays_in_flight != 0 && replay != times) continue;
    for (const ReplayedRuns* const runs : all) runs->team_.synchronize(runs->stream_);
    if (!right || (replay % replays_between_checks != 0 && replay != times)) continue;
    for (const ReplayedRuns* const runs : all) right = runs->check_totals(replay - checked) && right;
    checked = replay;
  }
}

bool ReplayedRuns::check_totals(int replays) const {
  bool right = true;
  for (const Run& run : runs_) {
    for (int set = 0; set < sets; ++set) {
      const auto at = static_cast<std::size_t>(set);
      const std::vector<float> once = floats(run.eager[at]);
      const std::vector<float> total = floats(run.total[at]);
      for (std::size_t i = 0; i < once.size(); ++i) {
        const float wanted = once[i] * static_cast<float>(replays);
        if (total[i] == wanted) continue;
        ADD_FAILURE() << run.what << ", inputs " << set << ", rank " << team_.rank() << " of " << team_.size()
                      << ": element " << i << " of " << replays << " replays adds up to " << total[i] << ", not "
                      << wanted;
        right = false;
        break;
      }
      // The totals restart at 0, so that f32 keeps representing them exactly.
      const TensorView begun = run.total[at].view();
      team_.device().fill(stream_, begun.data(), std::byte{0}, begun.bytes());
    }
  }
  return right;
}

}  // namespace tandem::testing

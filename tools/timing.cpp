// SPDX-License-Identifier: Apache-2.0
#include "tools/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>

#include "tandem/device/graph.hpp"

#include "base/format.hpp"
#include "tools/sm_clocks.hpp"

namespace tandem::tools {
namespace {

std::vector<Parcel> gather_bytes(const Team& team, const void* data, std::size_t bytes) {
  Parcel mine;
  mine.bytes.resize(bytes);
  if (bytes != 0) std::memcpy(mine.bytes.data(), data, bytes);
  return team.exchange("results", std::move(mine));
}

}  // namespace

double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::ranges::sort(samples);
  const std::size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

double percentile(std::vector<double> samples, double percent) {
  if (samples.empty()) return 0;
  std::ranges::sort(samples);
  const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(samples.size())));
  return samples[std::clamp<std::size_t>(rank, 1, samples.size()) - 1];
}

std::string to_string(const Repetitions& repetitions) {
  const std::string graph =
      repetitions.graph_launches == 0 ? "" : format(" in a CUDA graph launched {} times", repetitions.graph_launches);
  return format("{} iterations{}, {} for warm-up", repetitions.iterations, graph, repetitions.warmup);
}

Timing::Timing(const Team& team, StreamRef stream, bool blocking, SmClocks* clocks)
    : team_(team),
      stream_(stream),
      events_(stream.type() == DeviceType::cuda),
      blocking_(blocking || !events_),
      clocks_(clocks) {
  pad_ = SymmetricMemory::allocate(team, 0, {.channels = 1});
  pad_.rendezvous();
}

void Timing::measure(const std::function<void()>& body) {
  pad_.signal_pad().barrier(stream_, 0);
  if (!events_) {
    team_.synchronize(stream_);
    const auto begin = std::chrono::steady_clock::now();
    body();
    team_.synchronize(stream_);
    seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    return;
  }
  if (used_ == pairs_.size()) {
    pairs_.push_back({Event(team_.device(), Event::Timing::on), Event(team_.device(), Event::Timing::on)});
  }
  const Pair& pair = pairs_[used_++];
  pairs_[used_ - 1].begin.record(stream_);
  body();
  pairs_[used_ - 1].end.record(stream_);
  if (blocking_) pair.end.synchronize();
}

std::vector<std::vector<double>> Timing::in_turns(std::span<const std::function<void()>> bodies, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    for (const auto& body : bodies) measure(body);
  }
  if (clocks_ != nullptr) clocks_->sample();
  std::vector<std::vector<double>> taken(bodies.size());
  const std::vector<double> all = collect();
  for (std::size_t i = 0; i < all.size(); ++i) taken[i % taken.size()].push_back(all[i]);
  return taken;
}

QueuedRuns Timing::queued(const std::function<void()>& body, const Repetitions& repetitions) const {
  if (repetitions.graph_launches == 0) return {.queue = body};
  const auto graph = std::make_shared<const Graph>(team_.device(), stream_, [&] {
    for (int i = 0; i < repetitions.iterations; ++i) body();
  });
  return {.queue = [stream = stream_, graph] { graph->launch(stream); }, .runs = repetitions.iterations};
}

std::vector<std::vector<double>> Timing::repeated(std::span<const QueuedRuns> all, const Repetitions& repetitions) {
  std::vector<std::function<void()>> bodies;
  for (const QueuedRuns& each : all) bodies.push_back(each.queue);
  const bool graphs = repetitions.graph_launches != 0;
  const int launches = repetitions.warmup / repetitions.iterations + 1;  // a graph's first launch uploads it
  static_cast<void>(in_turns(bodies, graphs ? launches : repetitions.warmup));
  std::vector<std::vector<double>> taken =
      in_turns(bodies, graphs ? repetitions.graph_launches : repetitions.iterations);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (double& seconds : taken[i]) seconds /= all[i].runs;
  }
  return taken;
}

std::vector<double> Timing::medians_in_turns(std::span<const std::function<void()>> bodies, double limit, int least,
                                             int most) {
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(in_turns(bodies, 1));  // warms up, and measures how long a round takes
  const double once = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double longest = std::max(gather_numbers(team_, {once})[0][0], 1e-6);  // rank 0's, so that all agree
  const int rounds = static_cast<int>(std::clamp(limit / longest, double(least), double(most)));
  std::vector<double> medians;
  for (const std::vector<double>& each : in_turns(bodies, rounds)) medians.push_back(median(each));
  return medians;
}

void Timing::trace(const std::function<void()>& body) {
  Device& device = team_.device();
  const auto traced = [&] {
    device.trace().clear();
    device.trace().enable(true);
    body();
    team_.synchronize(stream_);
    device.trace_collect();
    device.trace().enable(false);
  };
  traced();  // the first time creates the events
  // Queued after other work, so that the GPU does not wait for this thread.
  for (int i = 0; events_ && i < 4; ++i) body();
  pad_.signal_pad().barrier(stream_, 0);
  if (!events_) team_.synchronize(stream_);
  traced();
}

std::vector<double> Timing::collect() {
  team_.synchronize(stream_);
  for (std::size_t i = 0; i < used_; ++i) seconds_.push_back(pairs_[i].end.elapsed_since(pairs_[i].begin) * 1e-3);
  used_ = 0;
  std::vector<double> slowest(seconds_.size());
  for (const std::vector<double>& rank : gather_numbers(team_, seconds_)) {
    std::ranges::transform(slowest, rank, slowest.begin(), [](double a, double b) { return std::max(a, b); });
  }
  seconds_.clear();
  return slowest;
}

std::vector<std::vector<double>> gather_numbers(const Team& team, const std::vector<double>& mine) {
  std::vector<std::vector<double>> all;
  for (const Parcel& parcel : gather_bytes(team, mine.data(), mine.size() * sizeof(double))) {
    std::vector<double>& numbers = all.emplace_back(parcel.bytes.size() / sizeof(double));
    if (!numbers.empty()) std::memcpy(numbers.data(), parcel.bytes.data(), parcel.bytes.size());
  }
  return all;
}

std::vector<std::string> gather_texts(const Team& team, const std::string& mine) {
  std::vector<std::string> all;
  for (const Parcel& parcel : gather_bytes(team, mine.data(), mine.size())) {
    all.emplace_back(reinterpret_cast<const char*>(parcel.bytes.data()), parcel.bytes.size());
  }
  return all;
}

}  // namespace tandem::tools

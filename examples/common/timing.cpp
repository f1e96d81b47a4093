// SPDX-License-Identifier: Apache-2.0
#include "common/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

namespace tandem::examples {

Timing::Timing(const Team& team, StreamRef stream, std::chrono::milliseconds rest)
    : team_(team), stream_(stream), rest_(rest), pad_(SymmetricMemory::allocate(team, 0, {.channels = 1})) {
  pad_.rendezvous();
}

void Timing::run(const Body& body) {
  if (rest_.count() != 0) {
    team_.synchronize(stream_);
    std::this_thread::sleep_for(rest_);
  }
  body.before();
  pad_.signal_pad().barrier(stream_, 0);
  if (stream_.type() == DeviceType::cuda) {
    if (used_ == events_.size()) {
      events_.push_back({Event(team_.device(), Event::Timing::on), Event(team_.device(), Event::Timing::on)});
    }
    Pair& pair = events_[used_++];
    pair.begin.record(stream_);
    body.run();
    pair.end.record(stream_);
    return;
  }
  team_.synchronize(stream_);
  const auto begin = std::chrono::steady_clock::now();
  body.run();
  team_.synchronize(stream_);
  seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

std::vector<double> Timing::collect() {
  team_.synchronize(stream_);
  for (std::size_t i = 0; i < used_; ++i) seconds_.push_back(events_[i].end.elapsed_since(events_[i].begin) * 1e-3);
  used_ = 0;
  std::vector<double> slowest = std::exchange(seconds_, {});
  Parcel mine;
  mine.bytes.resize(slowest.size() * sizeof(double));
  std::memcpy(mine.bytes.data(), slowest.data(), mine.bytes.size());
  std::vector<double> theirs(slowest.size());
  for (const Parcel& parcel : team_.exchange("times", std::move(mine))) {
    std::memcpy(theirs.data(), parcel.bytes.data(), parcel.bytes.size());
    std::ranges::transform(slowest, theirs, slowest.begin(), [](double a, double b) { return std::max(a, b); });
  }
  return slowest;
}

std::vector<double> Timing::in_turns(const std::vector<Body>& bodies, int warmup, int iterations) {
  std::vector<std::vector<double>> taken(bodies.size());
  for (int i = 0; i < warmup + iterations; ++i) {
    for (const Body& body : bodies) run(body);
    const std::vector<double> seconds = collect();
    if (i < warmup) continue;
    for (std::size_t b = 0; b < bodies.size(); ++b) taken[b].push_back(seconds[b]);
  }
  std::vector<double> medians;
  for (std::vector<double>& times : taken) {
    std::ranges::sort(times);
    medians.push_back((times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2);
  }
  return medians;
}

}  // namespace tandem::examples

// SPDX-License-Identifier: Apache-2.0
#include "tools/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

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

Timing::Timing(const Team& team, StreamRef stream, bool blocking)
    : team_(team), stream_(stream), events_(stream.type() == DeviceType::cuda), blocking_(blocking || !events_) {
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
  std::vector<std::vector<double>> taken(bodies.size());
  const std::vector<double> all = collect();
  for (std::size_t i = 0; i < all.size(); ++i) taken[i % taken.size()].push_back(all[i]);
  return taken;
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

// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/trace.hpp"

#include <ctime>

#include "base/format.hpp"

namespace tandem {
namespace {

/// `text` escaped for use inside a JSON string.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

}  // namespace

const char* name(TraceKind kind) noexcept {
  switch (kind) {
    case TraceKind::compute: return "compute";
    case TraceKind::communication: return "communication";
    case TraceKind::exchange: return "exchange";
    case TraceKind::wait: return "wait";
    case TraceKind::other: return "other";
  }
  return "other";
}

void Trace::name_track(std::uint64_t track, std::string name) {
  const std::scoped_lock lock(mutex_);
  tracks_[track] = std::move(name);
}

void Trace::add(TraceEvent event) {
  const std::scoped_lock lock(mutex_);
  events_.push_back(std::move(event));
}

std::vector<TraceEvent> Trace::events() const {
  const std::scoped_lock lock(mutex_);
  return events_;
}

void Trace::clear() {
  const std::scoped_lock lock(mutex_);
  events_.clear();
}

std::string Trace::chrome_events(int rank) const {
  const std::scoped_lock lock(mutex_);
  std::string text = format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})", rank, rank);
  for (const auto& [track, label] : tracks_) {
    text += format(
        ",\n"
        R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
        rank, track, escaped(label));
  }
  for (const TraceEvent& event : events_) {
    text += format(
        ",\n"
        R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
        escaped(event.name), tandem::name(event.kind), rank, event.track, static_cast<double>(event.begin_ns) / 1e3,
        static_cast<double>(event.end_ns - event.begin_ns) / 1e3);
  }
  return text;
}

std::string Trace::chrome_document(const std::vector<std::string>& ranks, const std::string& label) {
  std::string text = format(R"({{"displayTimeUnit":"ms","otherData":{{"label":"{}"}},"traceEvents":[)", escaped(label));
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "\n" : ",\n") + ranks[i];
  return text + "\n]}\n";
}

std::int64_t Trace::now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace tandem

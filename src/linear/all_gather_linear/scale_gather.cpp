// SPDX-License-Identifier: Apache-2.0
#include "linear/all_gather_linear/scale_gather.hpp"

#include "linear/algorithms.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

/// All scales together, whatever x does.
LinearChoice in_one_group(const LinearChoice& choice) {
  LinearChoice one = choice;
  one.groups = 0;
  return one;
}

}  // namespace

ScaleGather::Beside::Beside(const Team& team)
    : stream(team), gathered(or_abort(team, "an event", [&] { return Event(team.device()); })) {}

ScaleGather::Parts::Parts(const Team& team, std::int64_t max_m, const LinearChoice& choice, std::uint32_t operation)
    : gather(team, max_m, sizeof(float), in_one_group(choice), ShardGather::Meanwhile::something, ShardGather::Kept::no,
             operation) {
  if (choice.algorithm != sequence) beside.emplace(team);
}

ScaleGather::ScaleGather(const Team& team, const LinearSpec& spec, const LinearChoice& choice, std::uint32_t operation)
    : keeps_own_(choice.algorithm == sequence && spec.x_layout == Layout::normal) {
  if (spec.scaling == Scaling::per_row && team.size() > 1) parts_.emplace(team, spec.m, choice, operation);
}

std::string ScaleGather::communication() const {
  return parts_ ? "; of the scales of rows, " + parts_->gather.communication() : "";
}

Owners ScaleGather::owners() const { return parts_ ? parts_->gather.owners() : Owners(); }

void ScaleGather::start(StreamRef stream, const float* own, std::int64_t m, bool captured) {
  if (!parts_) return;
  auto& [gather, beside] = *parts_;
  gather.take_slot(stream);
  if (beside) beside->stream.follow(stream);
  const StreamRef on = beside ? beside->stream.ref() : stream;
  gather.start(on, own, m, captured);
  if (keeps_own_) gather.keep_own(on, own);
  for (const ShardGroup& group : gather.groups()) gather.wait(on, group);
  if (beside) beside->gathered.record(on);
}

void ScaleGather::wait(StreamRef stream) const {
  if (parts_ && parts_->beside) parts_->beside->gathered.wait(stream);
}

const float* ScaleGather::of(std::int64_t row, const float* own) const {
  return parts_ ? reinterpret_cast<const float*>(parts_->gather.row(row)) : own;
}

void ScaleGather::rejoin(StreamRef stream) {
  if (parts_ && parts_->beside) parts_->beside->stream.rejoin(stream);
}

void ScaleGather::finish(StreamRef stream) {
  if (!parts_) return;
  rejoin(stream);
  parts_->gather.finish(stream, parts_->gather.slot());
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "sharded/gathered_groups.hpp"

#include "tandem/device/reduce.hpp"
#include "tandem/device/trace_range.hpp"

#include "base/format.hpp"
#include "collective/engines.hpp"
#include "sharded/parameter_views.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

/// Where copies leave computation alone, pushes alone: they take no SMs, and no memory for what is never staged.
CollectiveOptions gather_options(const Device& device) {
  if (device.costs().copies_cost_compute) return {};
  CollectiveOptions options{.algorithm = "push", .staging = false};
  if (engines_copy(device)) options.sms = 0;
  return options;
}

}  // namespace

GatheredGroups::GatheredGroups(const Team& team, std::span<const GroupLayout> layouts, DType dtype, int buffers)
    : team_(team),
      all_gather_(team, {.count = shard_of_largest(layouts), .dtype = dtype}, gather_options(team.device())),
      beside_(team) {
  for (int i = 0; i < buffers; ++i) buffers_.push_back(made(team, layouts, dtype));
}

GatheredGroups::GroupBuffer GatheredGroups::made(const Team& team, std::span<const GroupLayout> layouts, DType dtype) {
  GroupBuffer buffer{or_abort(team, "memory for gathered parameters",
                              [&] { return SymmetricTensor::empty(team, {elements_of_largest(layouts)}, dtype); }),
                     {},
                     {},
                     or_abort(team, "an event", [&] { return Event(team.device()); })};
  buffer.whole.rendezvous();
  for (const GroupLayout& layout : layouts) {
    buffer.groups.push_back(buffer.whole.viewed_as({layout.elements()}, dtype));
    buffer.parameters.push_back(parameter_views(layout, buffer.whole.memory().data(), dtype, team.device().id()));
  }
  return buffer;
}

void GatheredGroups::round(const TensorView& shard, const TensorView& to) {
  const TraceRange range(team_.device(), beside_.ref(), "round a shard", TraceKind::compute);
  team_.device().map(beside_.ref(), {.kind = MapKind::cast,
                                     .out = to.data(),
                                     .x = shard.data(),
                                     .count = shard.numel(),
                                     .dtype = shard.dtype(),
                                     .out_dtype = to.dtype()});
}

void GatheredGroups::gather(Residency::Placement into, const TensorView& shard) {
  GroupBuffer& buffer = buffers_[static_cast<std::size_t>(into.buffer)];
  all_gather_(shard, buffer.groups[static_cast<std::size_t>(into.group)], beside_.ref());
  buffer.gathered.record(beside_.ref());
  team_.device().flush(beside_.ref());
}

Owners GatheredGroups::owners() const {
  Owners owners;
  for (const GroupBuffer& buffer : buffers_) append(owners, owners_of(buffer.whole.memory()));
  return owners;
}

std::string GatheredGroups::describe() const {
  return format("{} gathered group{} at once, in {} bytes each\n{}", buffers_.size(), buffers_.size() == 1 ? "" : "s",
                buffers_.front().whole.memory().bytes(), all_gather_.describe());
}

}  // namespace tandem

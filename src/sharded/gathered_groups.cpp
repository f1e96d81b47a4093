// SPDX-License-Identifier: Apache-2.0
#include "sharded/gathered_groups.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "collective/engines.hpp"
#include "sharded/parameter_views.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

/// Left to copy engines, where there are any: SMs are for the computation that hides the gathers.
CollectiveOptions gather_options(const Device& device) {
  if (!engines_copy(device)) return {};
  return {.sms = 0};
}

}  // namespace

GatheredGroups::GatheredGroups(const Team& team, std::span<const GroupLayout> layouts, DType dtype, int buffers)
    : team_(team),
      all_gather_(team, {.count = longest_shard(layouts), .dtype = dtype}, gather_options(team.device())),
      beside_(team) {
  for (const GroupLayout& layout : layouts) elements_.push_back(layout.elements());
  for (int i = 0; i < buffers; ++i) buffers_.push_back(made(team, layouts, dtype));
}

GatheredGroups::GroupBuffer GatheredGroups::made(const Team& team, std::span<const GroupLayout> layouts, DType dtype) {
  const std::size_t bytes = longest_group(layouts) * size_of(dtype);
  auto memory =
      or_abort(team, "memory for gathered parameters", [&] { return SymmetricMemory::allocate(team, bytes); });
  GroupBuffer buffer{memory, {}, {}, or_abort(team, "an event", [&] { return Event(team.device()); })};
  for (const GroupLayout& layout : layouts) {
    if (!buffer.by_elements.contains(layout.elements())) {
      auto tensor = or_abort(team, "a tensor for gathered parameters", [&] {
        return SymmetricTensor::wrap(team, memory.data(), {layout.elements()}, dtype, {.channels = 1});
      });
      tensor.rendezvous();
      buffer.by_elements.emplace(layout.elements(), std::move(tensor));
    }
    buffer.parameters.push_back(parameter_views(layout, memory.data(), dtype, team.device().id()));
  }
  return buffer;
}

void GatheredGroups::gather(Residency::Placement into, const TensorView& shard) {
  const GroupBuffer& buffer = buffers_[static_cast<std::size_t>(into.buffer)];
  const std::int64_t elements = elements_[static_cast<std::size_t>(into.group)];
  all_gather_(shard, buffer.by_elements.at(elements), beside_.ref());
  buffers_[static_cast<std::size_t>(into.buffer)].gathered.record(beside_.ref());
  team_.device().flush(beside_.ref());
}

Owners GatheredGroups::owners() const {
  Owners owners;
  for (const GroupBuffer& buffer : buffers_) {
    for (const auto& [elements, tensor] : buffer.by_elements) append(owners, owners_of(tensor.memory()));
  }
  return owners;
}

std::string GatheredGroups::describe() const {
  return format("{} gathered group{} at once, in {} bytes each\n{}", buffers_.size(), buffers_.size() == 1 ? "" : "s",
                buffers_.front().memory.bytes(), all_gather_.describe());
}

}  // namespace tandem

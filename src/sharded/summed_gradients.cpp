// SPDX-License-Identifier: Apache-2.0
#include "sharded/summed_gradients.hpp"

#include <algorithm>

#include "tandem/device/reduce.hpp"
#include "tandem/device/trace_range.hpp"

#include "base/format.hpp"
#include "collective/engines.hpp"
#include "collective/plan_buffer.hpp"
#include "collective/tuning.hpp"
#include "sharded/parameter_views.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

/// Where copies leave computation alone, by pushes, on CUDA in pieces of a quarter of the largest group at least: each
/// piece costs some 20 us of signals.
CollectiveOptions reduce_options(const Device& device, std::size_t largest_bytes, std::optional<int> sms) {
  if (device.costs().copies_cost_compute) return {.sms = sms};
  const std::size_t usual = collective_tuning(device.id().type).piece_bytes;
  const std::size_t piece = engines_copy(device) ? std::max(usual, largest_bytes / 4) : usual;
  return {.algorithm = "push", .piece_bytes = piece, .sms = sms};
}

}  // namespace

SummedGradients::SummedGradients(const Team& team, std::span<const GroupLayout> layouts, DType dtype, int buffers,
                                 std::optional<int> sms)
    : team_(team),
      dtype_(dtype),
      layouts_(layouts.begin(), layouts.end()),
      scratch_(team, plan_buffer(team, static_cast<std::size_t>(shard_of_largest(layouts)) * size_of(f32))),
      reduce_scatter_(
          team, {.count = shard_of_largest(layouts), .dtype = dtype, .out_dtype = f32},
          reduce_options(team.device(), static_cast<std::size_t>(elements_of_largest(layouts)) * size_of(dtype), sms)),
      beside_(team) {
  for (int i = 0; i < buffers; ++i) buffers_.push_back(made());
}

SummedGradients::GroupBuffer SummedGradients::made() const {
  const std::size_t bytes = static_cast<std::size_t>(elements_of_largest(layouts_)) * size_of(dtype_);
  GroupBuffer buffer{Reclaimed<Buffer>(team_, plan_buffer(team_, bytes)), {}, or_abort(team_, "an event", [&] {
                       return Event(team_.device());
                     })};
  for (const GroupLayout& layout : layouts_) {
    buffer.gradients.push_back(parameter_views(layout, buffer.memory->data(), dtype_, team_.device().id()));
  }
  return buffer;
}

std::span<const TensorView> SummedGradients::open(int group, StreamRef stream) {
  current_ = (current_ + 1) % buffers_.size();
  GroupBuffer& buffer = buffers_[current_];
  if (buffer.in_use) buffer.read.wait(stream);
  for (const Shard& gap : layouts_[static_cast<std::size_t>(group)].gaps()) {
    std::byte* const begin =
        buffer.memory->data_as<std::byte>() + static_cast<std::size_t>(gap.begin) * size_of(dtype_);
    team_.device().fill(stream, begin, std::byte{0}, static_cast<std::size_t>(gap.count) * size_of(dtype_));
  }
  return buffer.gradients[static_cast<std::size_t>(group)];
}

void SummedGradients::sum(int group, const TensorView& gradient, const GradientScales& scales, StreamRef stream) {
  GroupBuffer& buffer = buffers_[current_];
  const bool scaled = scales.alpha != 1.0F || scales.beta != 0.0F;
  const TensorView given = buffer.memory->view({layouts_[static_cast<std::size_t>(group)].elements()}, dtype_);
  beside_.follow(stream);
  reduce_scatter_(given, scaled ? scratch_->view(gradient.sizes(), f32) : gradient, beside_.ref());
  buffer.read.record(beside_.ref());
  buffer.in_use = true;
  if (scaled) {
    const TraceRange range(team_.device(), beside_.ref(), "scale gradients", TraceKind::compute);
    const bool adds = scales.beta != 0.0F;
    team_.device().map(beside_.ref(), {.kind = adds ? MapKind::add : MapKind::cast,
                                       .out = gradient.data(),
                                       .x = scratch_->data(),
                                       .y = adds ? gradient.data() : nullptr,
                                       .count = gradient.numel(),
                                       .dtype = f32,
                                       .out_dtype = f32,
                                       .alpha = scales.alpha,
                                       .beta = scales.beta});
  }
  team_.device().flush(beside_.ref());
}

void SummedGradients::restart() noexcept {
  for (GroupBuffer& buffer : buffers_) buffer.in_use = false;
  current_ = 0;
}

Owners SummedGradients::owners() const {
  Owners owners{scratch_.shared()};
  for (const GroupBuffer& buffer : buffers_) owners.push_back(buffer.memory.shared());
  return owners;
}

std::string SummedGradients::describe() const {
  return format("gradients of {} group{} at once, in {} bytes each, summed into f32\n{}", buffers_.size(),
                buffers_.size() == 1 ? "" : "s", buffers_.front().memory->bytes(), reduce_scatter_.describe());
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "sharded/sharded_parameters/state.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "base/format.hpp"
#include "collective/plan_buffer.hpp"
#include "memory/owners.hpp"
#include "sharded/parameter_views.hpp"
#include "team/names.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

constexpr int most_buffers = 64;

DType gradient_dtype(const ShardedSpec& spec) { return spec.gradient_dtype.value_or(spec.dtype); }

int buffers_of(const Team& team, const ShardedOptions& options) {
  return options.buffers.value_or(team.device().costs().copies_cost_compute ? 1 : 2);
}

std::vector<int> order_of(const ShardedSpec& spec) {
  if (!spec.order.empty()) return spec.order;
  std::vector<int> order(spec.groups.size());
  std::iota(order.begin(), order.end(), 0);
  order.insert(order.end(), order.rbegin(), order.rend());
  return order;
}

/// All that must be equal on all ranks: in numbers, and as the hash of a text, which would be long.
std::string arguments_text(const Team& team, const ShardedSpec& spec, const ShardedOptions& options) {
  std::string all;
  std::size_t parameters = 0;
  for (const ParameterGroup& group : spec.groups) {
    all += format("group {}: ", group.name);
    for (const Parameter& parameter : group.parameters)
      all += format("{} {}, ", parameter.name, to_string(parameter.sizes));
    parameters += group.parameters.size();
  }
  for (const int group : order_of(spec)) all += format(" {}", group);
  return format(
      "of {} parameters in {} groups, {} with gradients in {}, {} buffers{}; hash of names, sizes and order {:x}",
      parameters, spec.groups.size(), name(spec.dtype), name(gradient_dtype(spec)), buffers_of(team, options),
      options.sms ? format(", on at most {} SMs", *options.sms) : "", std::hash<std::string>{}(all));
}

/// Called after the ranks have agreed on the arguments, so that all of them refuse what any of them was given.
std::vector<GroupLayout> layouts_of(const Team& team, const ShardedSpec& spec, const ShardedOptions& options) {
  const auto refuse = [&](const std::string& text) {
    throw InvalidArgument(format("ShardedParameters on {}: {}", name_own_rank(team), text));
  };
  if (spec.dtype != f32 && spec.dtype != bf16 && spec.dtype != f16) {
    throw Unsupported(format("ShardedParameters on {}: dtype {} was asked for; allowed: f32, bf16 and f16",
                             name_own_rank(team), name(spec.dtype)));
  }
  if (gradient_dtype(spec) != spec.dtype && gradient_dtype(spec) != f32) {
    refuse(format("gradients in {} were asked for with dtype {}; allowed: {} and f32", name(gradient_dtype(spec)),
                  name(spec.dtype), name(spec.dtype)));
  }
  if (spec.groups.empty()) refuse("no group of parameters was given; 1 is needed at least");
  const int groups = static_cast<int>(spec.groups.size());
  for (const int group : spec.order) {
    if (group < 0 || group >= groups) refuse(format("the order has group {}; allowed: 0 to {}", group, groups - 1));
  }
  const int buffers = buffers_of(team, options);
  if (buffers < 1 || buffers > most_buffers) refuse(format("{} buffers; allowed: 1 to {}", buffers, most_buffers));
  std::vector<GroupLayout> layouts;
  for (const ParameterGroup& group : spec.groups) layouts.emplace_back(group, team.size());
  return layouts;
}

std::vector<std::vector<ParameterPiece>> pieces_of(std::span<const GroupLayout> layouts, int rank) {
  std::vector<std::vector<ParameterPiece>> pieces;
  for (const GroupLayout& layout : layouts) pieces.push_back(layout.pieces(rank));
  return pieces;
}

/// Where each group's shard begins among all shards and, behind the last one, where they end.
std::vector<std::int64_t> places_of(std::span<const GroupLayout> layouts) {
  std::vector<std::int64_t> places{0};
  for (const GroupLayout& layout : layouts) places.push_back(places.back() + layout.shard_elements());
  return places;
}

}  // namespace

ShardedParameters::State::State(const Team& team, const ShardedSpec& spec, const ShardedOptions& options)
    : PlanState(team, "ShardedParameters", arguments_text(team, spec, options)),
      dtype_(spec.dtype),
      layouts_(layouts_of(team, spec, options)),
      pieces_(pieces_of(layouts_, team.rank())),
      places_(places_of(layouts_)),
      residency_(order_of(spec), buffers_of(team, options)),
      shards_(team, plan_buffer(team, static_cast<std::size_t>(places_.back()) * size_of(dtype_))),
      gradients_(team, plan_buffer(team, static_cast<std::size_t>(places_.back()) * size_of(f32))),
      gathered_(team, layouts_, dtype_, buffers_of(team, options)),
      summed_(team, layouts_, gradient_dtype(spec), buffers_of(team, options), options.sms) {
  or_abort(team, kind(), [&] {
    const Stream stream(device());
    for (const Reclaimed<Buffer>* each : {&shards_, &gradients_}) {
      device().fill(stream, (*each)->data(), std::byte{0}, (*each)->bytes());
    }
    stream.synchronize();
  });
  Owners owners{shards_.shared(), gradients_.shared()};
  append(owners, gathered_.owners());
  append(owners, summed_.owners());
  keep_in_graphs(std::move(owners));
  set_description(format("{}\n{} bytes of shards, {} of their gradients\n{}\n{}", describe(), shards_->bytes(),
                         gradients_->bytes(), gathered_.describe(), summed_.describe()));
}

std::size_t ShardedParameters::State::index_of(int group) const {
  if (group < 0 || group >= groups()) refuse(format("group {} was asked for; allowed: 0 to {}", group, groups() - 1));
  return static_cast<std::size_t>(group);
}

TensorView ShardedParameters::State::shard(int group) const {
  const std::size_t index = index_of(group);
  return shards_->view({layouts_[index].shard_elements()}, dtype_,
                       static_cast<std::size_t>(places_[index]) * size_of(dtype_));
}

TensorView ShardedParameters::State::gradient(int group) const {
  const std::size_t index = index_of(group);
  return gradients_->view({layouts_[index].shard_elements()}, f32,
                          static_cast<std::size_t>(places_[index]) * size_of(f32));
}

std::span<const ParameterPiece> ShardedParameters::State::pieces(int group) const { return pieces_[index_of(group)]; }

void ShardedParameters::State::load(int group, int parameter, const TensorView& whole, StreamRef stream) {
  const std::size_t index = index_of(group);
  attend(stream);
  const auto sizes = layouts_[index].sizes();
  if (parameter < 0 || parameter >= std::ssize(sizes)) {
    refuse(format("parameter {} of group {} was asked for; allowed: 0 to {}", parameter, group, std::ssize(sizes) - 1));
  }
  if (open_) refuse(format("group {} was to be loaded in the middle of a step; finish() ends it", group));
  expect(whole, "whole", whole.dtype() == f32 ? f32 : dtype_, sizes[static_cast<std::size_t>(parameter)]);
  const TensorView into = shard(group);
  begin(stream);
  whole_or_failed([&] {
    for (const ParameterPiece& piece : pieces_[index]) {
      if (piece.parameter != parameter) continue;
      const auto from = static_cast<std::size_t>(piece.elements.begin) * size_of(whole.dtype());
      const auto to = static_cast<std::size_t>(piece.begin) * size_of(dtype_);
      device().map(stream, {.kind = MapKind::cast,
                            .out = into.data_as<std::byte>() + to,
                            .x = whole.data_as<const std::byte>() + from,
                            .count = piece.elements.count,
                            .dtype = whole.dtype(),
                            .out_dtype = dtype_});
    }
    end(stream);
  });
}

void ShardedParameters::State::attend(StreamRef stream) {
  const std::uint64_t now = capture_of(stream);
  if (now == step_capture_) return;
  if (open_ && step_capture_ == 0) {
    team().check();  // a step that a failure left open is not the caller's mistake
    refuse(
        "a step that began outside of this capture went on in it; finish() ends a step, and a captured one is whole");
  }
  close();
  step_capture_ = now;
}

void ShardedParameters::State::close() noexcept {
  residency_.clear();
  summed_.forget_earlier();
  in_use_.reset();
  written_.reset();
  open_ = false;
}

// Around the order's end, too: a step that leaves the shards as they are continues with the first groups. In a graph
// the step ends there, and nothing may be left on another stream.
void ShardedParameters::State::gather_ahead(StreamRef stream) {
  const auto placed = residency_.place(!capturing());
  if (placed.empty()) return;
  for (const Residency::Placement& each : placed) gathered_.gather(each, shard(each.group));
  device().yield(stream);
}

std::span<const TensorView> ShardedParameters::State::unshard(int group, StreamRef stream) {
  attend(group, stream);
  if (in_use_) refuse(format("group {} was asked for while group {} is in use; reshard() ends that", group, *in_use_));
  if (group != residency_.next()) {
    refuse(format("group {} was asked for; the order has group {} next, as use {} of {}", group, residency_.next(),
                  residency_.position() + 1, residency_.uses()));
  }
  expect_alike(stream, [&] { return format("group {} unsharded", group); });
  begin(stream);
  whole_or_failed([&] {
    if (!residency_.buffer_of(group)) gathered_.follow(stream);  // else the last `reshard` has
    gather_ahead(stream);
    gathered_.wait(*residency_.buffer_of(group), stream);
    end(stream);
  });
  in_use_ = group;
  open_ = true;
  return gathered_.parameters({group, *residency_.buffer_of(group)});
}

void ShardedParameters::State::reshard(int group, StreamRef stream) {
  attend(group, stream);
  if (in_use_ != group) {
    refuse(format("group {} was to be resharded; {}", group,
                  in_use_ ? format("group {} is in use", *in_use_) : "no group is in use"));
  }
  begin(stream);
  whole_or_failed([&] {
    gathered_.follow(stream);
    in_use_.reset();
    residency_.advance();
    if (!capturing() || residency_.position() != 0) gather_ahead(stream);
    end(stream);
  });
}

std::span<const TensorView> ShardedParameters::State::gradients(int group, StreamRef stream) {
  attend(group, stream);
  if (written_) {
    refuse(format("gradients of group {} were asked for while those of group {} are; reduce_gradients() ends that",
                  group, *written_));
  }
  begin(stream);
  std::span<const TensorView> views;
  whole_or_failed([&] {
    views = summed_.open(group, stream);
    end(stream);
  });
  written_ = group;
  open_ = true;
  return views;
}

void ShardedParameters::State::reduce_gradients(int group, StreamRef stream, const GradientScales& scales) {
  attend(group, stream);
  if (written_ != group) {
    refuse(format("gradients of group {} were to be reduced; {}", group,
                  written_ ? format("those of group {} are being written", *written_)
                           : "none are being written: gradients() gives memory for them"));
  }
  expect_alike(stream, [&] { return format("gradients of group {} reduced", group); });
  begin(stream);
  whole_or_failed([&] {
    summed_.sum(group, gradient(group), scales, stream);
    end(stream);
  });
  written_.reset();
}

void ShardedParameters::State::finish(StreamRef stream) {
  attend(stream);
  begin(stream);
  whole_or_failed([&] {
    gathered_.rejoin(stream);
    summed_.rejoin(stream);
    end(stream);
  });
  close();
}

}  // namespace tandem

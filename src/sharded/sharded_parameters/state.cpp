// SPDX-License-Identifier: Apache-2.0
#include "sharded/sharded_parameters/state.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/reduce.hpp"

#include "base/format.hpp"
#include "collective/plan_buffer.hpp"
#include "memory/owners.hpp"
#include "team/names.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

constexpr int most_buffers = 64;

DType gradient_dtype(const ShardedSpec& spec) { return spec.gradient_dtype.value_or(spec.dtype); }
DType shard_dtype(const ShardedSpec& spec) { return spec.shard_dtype.value_or(spec.dtype); }

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

std::string count_of(std::ptrdiff_t count, std::string_view thing) {
  return format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string arguments_text(const Team& team, const ShardedSpec& spec, const ShardedOptions& options) {
  std::ptrdiff_t parameters = 0;
  for (const ParameterGroup& group : spec.groups) parameters += std::ssize(group.parameters);
  return format("of {} in {}, {} with shards in {} and gradients in {}, {}{}", count_of(parameters, "parameter"),
                count_of(std::ssize(spec.groups), "group"), name(spec.dtype), name(shard_dtype(spec)),
                name(gradient_dtype(spec)), count_of(buffers_of(team, options), "buffer"),
                options.sms ? format(", sums on at most {} SMs", *options.sms) : "");
}

/// Compares what could be long piece by piece: the error then says what differs.
void agree_on_groups(const Team& team, std::string_view kind, const ShardedSpec& spec) {
  int index = 0;
  for (const ParameterGroup& group : spec.groups) {
    std::string text = format("group {} '{}':", index++, group.name);
    for (const Parameter& each : group.parameters) text += format(" {}{}", each.name, to_string(each.sizes));
    team.agree(kind, text);
  }
  std::string order = "the order";
  for (const int group : order_of(spec)) order += format(" {}", group);
  team.agree(kind, order);
}

/// Collective. Refuses what is invalid after the ranks have agreed on it, so that all of them do.
std::vector<GroupLayout> layouts_of(const Team& team, const std::string& kind, const ShardedSpec& spec,
                                    const ShardedOptions& options) {
  agree_on_groups(team, kind, spec);
  const auto refuse = [&](const std::string& text) {
    throw InvalidArgument(format("{} on {}: {}", kind, name_own_rank(team), text));
  };
  const auto lacks = [&](const std::string& text) {
    throw Unsupported(format("{} on {}: {}", kind, name_own_rank(team), text));
  };
  if (spec.dtype != f32 && spec.dtype != bf16 && spec.dtype != f16) {
    lacks(format("dtype {} was asked for; allowed: f32, bf16 and f16", name(spec.dtype)));
  }
  if (static_cast<std::size_t>(team.size()) > max_reduce_operands) {
    lacks(format("gradients are summed over at most {} ranks", max_reduce_operands));
  }
  if (gradient_dtype(spec) != spec.dtype && gradient_dtype(spec) != f32) {
    refuse(format("gradients in {} were asked for with dtype {}; allowed: {} and f32", name(gradient_dtype(spec)),
                  name(spec.dtype), name(spec.dtype)));
  }
  if (shard_dtype(spec) != spec.dtype && shard_dtype(spec) != f32) {
    refuse(format("shards in {} were asked for with dtype {}; allowed: {} and f32", name(shard_dtype(spec)),
                  name(spec.dtype), name(spec.dtype)));
  }
  if (spec.groups.empty()) refuse("no group of parameters was given; 1 is needed at least");
  const int groups = static_cast<int>(spec.groups.size());
  for (const int group : spec.order) {
    if (group < 0 || group >= groups) refuse(format("the order has group {}; allowed: 0 to {}", group, groups - 1));
  }
  const int buffers = buffers_of(team, options);
  if (buffers < 1 || buffers > most_buffers) refuse(format("buffers is {}; allowed: 1 to {}", buffers, most_buffers));
  if (options.sms && *options.sms < 1) refuse(format("sms is {}; sums need 1 at least", *options.sms));
  std::vector<GroupLayout> layouts;
  for (const ParameterGroup& group : spec.groups) {
    try {
      layouts.emplace_back(group, team.size());
    } catch (const InvalidArgument& error) {
      refuse(error.what());
    }
  }
  return layouts;
}

std::vector<std::string> names_of(const ShardedSpec& spec) {
  std::vector<std::string> names;
  for (const ParameterGroup& group : spec.groups) names.push_back(group.name);
  return names;
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
      shard_dtype_(shard_dtype(spec)),
      layouts_(layouts_of(team, kind(), spec, options)),
      names_(names_of(spec)),
      pieces_(pieces_of(layouts_, team.rank())),
      places_(places_of(layouts_)),
      has_gradient_(spec.groups.size()),
      is_rounded_(spec.groups.size()),
      residency_(order_of(spec), buffers_of(team, options)),
      shards_(team, plan_buffer(team, static_cast<std::size_t>(places_.back()) * size_of(shard_dtype_))),
      rounded_(
          team,
          plan_buffer(team, shard_dtype_ == dtype_ ? 0 : static_cast<std::size_t>(places_.back()) * size_of(dtype_))),
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
  Owners owners{shards_.shared(), rounded_.shared(), gradients_.shared()};
  append(owners, gathered_.owners());
  append(owners, summed_.owners());
  keep_in_graphs(std::move(owners));
  const std::string rounded =
      rounded_->bytes() == 0 ? "" : format(", {} of shards rounded to {}", rounded_->bytes(), name(dtype_));
  set_description(format("{}\n{} bytes of shards{}, {} of their gradients\n{}\n{}", describe(), shards_->bytes(),
                         rounded, gradients_->bytes(), gathered_.describe(), summed_.describe()));
}

std::size_t ShardedParameters::State::index_of(int group) const {
  if (group < 0 || group >= groups()) refuse(format("group {} was asked for; allowed: 0 to {}", group, groups() - 1));
  return static_cast<std::size_t>(group);
}

std::string ShardedParameters::State::named(int group) const {
  return format("group {} '{}'", group, names_[static_cast<std::size_t>(group)]);
}

TensorView ShardedParameters::State::shard(int group) const {
  const std::size_t index = index_of(group);
  return shards_->view({layouts_[index].shard_elements()}, shard_dtype_,
                       static_cast<std::size_t>(places_[index]) * size_of(shard_dtype_));
}

TensorView ShardedParameters::State::gradient(int group) const {
  const std::size_t index = index_of(group);
  return gradients_->view({layouts_[index].shard_elements()}, f32,
                          static_cast<std::size_t>(places_[index]) * size_of(f32));
}

std::span<const ParameterPiece> ShardedParameters::State::pieces(int group) const { return pieces_[index_of(group)]; }

void ShardedParameters::State::load(int group, int parameter, const TensorView& whole, StreamRef stream) {
  const std::size_t index = index_of(group);
  resume(stream);
  const auto sizes = layouts_[index].sizes();
  if (parameter < 0 || parameter >= std::ssize(sizes)) {
    refuse(
        format("parameter {} of {} was asked for; allowed: 0 to {}", parameter, named(group), std::ssize(sizes) - 1));
  }
  if (open_) refuse(format("{} was to be loaded in the middle of a step; finish() ends it", named(group)));
  expect(whole, "whole", whole.dtype() == f32 ? f32 : dtype_, sizes[static_cast<std::size_t>(parameter)]);
  const TensorView into = shard(group);
  begin(stream);
  whole_or_failed([&] {
    for (const ParameterPiece& piece : pieces_[index]) {
      if (piece.parameter != parameter) continue;
      const auto from = static_cast<std::size_t>(piece.elements.begin) * size_of(whole.dtype());
      const auto to = static_cast<std::size_t>(piece.begin) * size_of(shard_dtype_);
      device().map(stream, {.kind = MapKind::cast,
                            .out = into.data_as<std::byte>() + to,
                            .x = whole.data_as<const std::byte>() + from,
                            .count = piece.elements.count,
                            .dtype = whole.dtype(),
                            .out_dtype = shard_dtype_});
    }
    end(stream);
  });
}

void ShardedParameters::State::resume(StreamRef stream) {
  const std::uint64_t now = capture_of(stream);
  if (now == step_capture_) return;
  if (open_ && step_capture_ == 0) {
    team().check();  // a step that a failure left open is not the caller's mistake
    refuse(
        "a step that began outside of this capture went on in it; finish() ends a step, and a captured one is whole");
  }
  close();
  gathered_.forget_dropped();
  summed_.forget_dropped();
  step_capture_ = now;
}

void ShardedParameters::State::close() noexcept {
  residency_.clear();
  summed_.restart();
  in_use_.reset();
  written_.reset();
  std::ranges::fill(has_gradient_, std::uint8_t{0});
  std::ranges::fill(is_rounded_, std::uint8_t{0});
  open_ = false;
}

TensorView ShardedParameters::State::rounded(int group) {
  const TensorView exact = shard(group);
  if (shard_dtype_ == dtype_) return exact;
  const auto index = static_cast<std::size_t>(group);
  const TensorView view =
      rounded_->view(exact.sizes(), dtype_, static_cast<std::size_t>(places_[index]) * size_of(dtype_));
  if (is_rounded_[index] == 0) gathered_.round(exact, view);
  is_rounded_[index] = 1;
  return view;
}

// Around the order's end, too: a step that leaves the shards as they are continues with the first groups. In a graph
// the step ends there, and nothing may be left on another stream.
void ShardedParameters::State::gather_ahead(StreamRef stream) {
  const auto placed = residency_.place(!capturing());
  if (placed.empty()) return;
  for (const Residency::Placement& each : placed) gathered_.gather(each, rounded(each.group));
  device().yield(stream);
}

std::span<const TensorView> ShardedParameters::State::unshard(int group, StreamRef stream) {
  resume(group, stream);
  if (in_use_) {
    refuse(format("{} was asked for while {} is in use; reshard() ends that", named(group), named(*in_use_)));
  }
  if (group != residency_.next()) {
    refuse(format("{} was asked for; the order has {} next, as use {} of {}", named(group), named(residency_.next()),
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
  resume(group, stream);
  if (in_use_ != group) {
    refuse(format("{} was to be resharded; {} is in use", named(group), in_use_ ? named(*in_use_) : "no group"));
  }
  expect_alike(stream, [&] { return format("group {} resharded", group); });
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
  resume(group, stream);
  if (written_) {
    refuse(format("gradients of {} were asked for while those of {} are being written; reduce_gradients() ends that",
                  named(group), named(*written_)));
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
  resume(group, stream);
  if (written_ != group) {
    refuse(format("gradients of {} were to be reduced; {}", named(group),
                  written_ ? format("those of {} are being written", named(*written_))
                           : "none are being written: gradients() gives memory for them"));
  }
  std::uint8_t& has_gradient = has_gradient_[static_cast<std::size_t>(group)];
  if (has_gradient != 0 && scales.beta == 0) {
    refuse(format("{} has a gradient of this step, which a beta of 0 would discard; 1 adds to it, finish() ends a step",
                  named(group)));
  }
  expect_alike(stream, [&] { return format("gradients of group {} reduced", group); });
  begin(stream);
  whole_or_failed([&] {
    summed_.sum(group, gradient(group), scales, stream);
    end(stream);
  });
  written_.reset();
  has_gradient = 1;
}

void ShardedParameters::State::finish(StreamRef stream) {
  resume(stream);
  expect_alike(stream, [] { return std::string("a step finished"); });
  begin(stream);
  whole_or_failed([&] {
    gathered_.rejoin(stream);
    summed_.rejoin(stream);
    end(stream);
  });
  close();
}

}  // namespace tandem

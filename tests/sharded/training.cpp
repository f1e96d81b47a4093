// SPDX-License-Identifier: Apache-2.0
#include "sharded/training.hpp"

#include <gtest/gtest.h>
#include <utility>

#include "tandem/device/device.hpp"

#include "linear/tensors.hpp"
#include "support/oracle.hpp"
#include "support/ranks.hpp"

namespace tandem::testing {
namespace {

constexpr std::uint64_t of_parameters = 1;
constexpr std::uint64_t of_gradients = 2;
constexpr std::uint64_t of_delays = 3;

}  // namespace

std::vector<ParameterGroup> odd_groups() {
  return {
      {"embedding", {{"table", {37, 11}}}},
      {"first", {{"weight", {13, 7}}, {"bias", {13}}, {"scale", {}}}},
      {"second", {{"weight", {7, 13}}, {"bias", {13}}, {"scale", {}}}},
      {"small", {{"none", {0, 5}}, {"one", {1}}}},
      {"empty", {{"nothing", {3, 0}}}},
      {"third", {{"weight", {129, 3}}, {"bias", {64}}, {"gate", {2, 2, 2}}}},
  };
}

Training::Training(const Team& team, const ShardedSpec& spec, const ShardedOptions& options, std::uint64_t sequence)
    : team_(team),
      spec_(spec),
      key_(key(seed(), {sequence})),
      stream_(team.device()),
      other_stream_(team.device()),
      between_steps_(team.device()),
      parameters_(team, spec, options) {
  for (const ParameterGroup& group : spec.groups) {
    std::vector<std::vector<double>> sums;
    for (const Parameter& each : group.parameters) sums.emplace_back(static_cast<std::size_t>(each.sizes.numel()));
    sums_.push_back(std::move(sums));
  }
}

const Parameter& Training::parameter(int group, int index) const {
  return spec_.groups[static_cast<std::size_t>(group)].parameters[static_cast<std::size_t>(index)];
}

std::vector<double> Training::values(std::uint64_t kind, std::uint64_t number, int rank, int group, int index) const {
  const std::uint64_t own = key(key_, {kind, number, static_cast<std::uint64_t>(rank),
                                       static_cast<std::uint64_t>(group), static_cast<std::uint64_t>(index)});
  std::vector<double> all;
  for (std::int64_t i = 0; i < parameter(group, index).sizes.numel(); ++i) {
    all.push_back(static_cast<double>(random_bits(own, static_cast<std::uint64_t>(i)) % 201) - 100);
  }
  return all;
}

TensorView Training::given(const Dims& sizes, DType dtype, std::span<const double> values) {
  return given_.emplace_back(team_.shared_device(), sizes, dtype, values).view();
}

void Training::update(bool whole) {
  ++updates_;
  for (int group = 0; group < parameters_.groups(); ++group) {
    const auto count = static_cast<int>(spec_.groups[static_cast<std::size_t>(group)].parameters.size());
    for (int index = 0; index < count; ++index) {
      const std::vector<double> all = values(of_parameters, updates_, 0, group, index);
      const Dims& sizes = parameter(group, index).sizes;
      if (whole) {
        parameters_.load(group, index, given(sizes, updates_ % 2 == 0 ? f32 : spec_.dtype, all), stream_);
        continue;
      }
      for (const ParameterPiece& piece : parameters_.pieces(group)) {
        if (piece.parameter != index) continue;
        const auto own = std::span(all).subspan(static_cast<std::size_t>(piece.elements.begin),
                                                static_cast<std::size_t>(piece.elements.count));
        const TensorView from = given({piece.elements.count}, spec_.shard_dtype.value_or(spec_.dtype), own);
        const TensorView into = parameters_.shard(group).narrow(0, piece.begin, piece.elements.count);
        team_.device().copy(stream_, {.dst = into.data(), .src = from.data(), .bytes = from.bytes()});
      }
    }
  }
  order_after(other_stream_, stream_, between_steps_);
}

void Training::use(int group, bool writes, GradientScales scales) {
  const std::uint64_t number = ++uses_;
  const std::uint64_t delay = key(key_, {of_delays, static_cast<std::uint64_t>(team_.rank())});
  const Stream& stream = number % streams_ == 0 ? stream_ : other_stream_;
  maybe_delay(stream, random_bits(delay, ++delays_));
  const std::string name = "group " + std::to_string(group) + " in use " + std::to_string(number);
  const auto gathered = parameters_.unshard(group, stream);
  const auto count = static_cast<int>(spec_.groups[static_cast<std::size_t>(group)].parameters.size());
  ASSERT_EQ(static_cast<int>(gathered.size()), count);
  for (int index = 0; index < count; ++index) {
    const TensorView& view = gathered[static_cast<std::size_t>(index)];
    EXPECT_EQ(view.sizes(), parameter(group, index).sizes);
    keep(parameter(group, index).name + " of " + name, view, values(of_parameters, updates_, 0, group, index), stream);
  }
  if (!writes) return parameters_.reshard(group, stream);
  const auto gradients = parameters_.gradients(group, stream);
  ASSERT_EQ(static_cast<int>(gradients.size()), count);
  for (int index = 0; index < count; ++index) {
    const TensorView& into = gradients[static_cast<std::size_t>(index)];
    const TensorView from = given(into.sizes(), into.dtype(), values(of_gradients, number, team_.rank(), group, index));
    team_.device().copy(stream, {.dst = into.data(), .src = from.data(), .bytes = from.bytes()});
  }
  if (number % 2 == 0) parameters_.reshard(group, stream);
  parameters_.reduce_gradients(group, stream, scales);
  if (number % 2 != 0) parameters_.reshard(group, stream);
  add_to_sums(group, number, scales);
}

void Training::add_to_sums(int group, std::uint64_t use, const GradientScales& scales) {
  auto& sums = sums_[static_cast<std::size_t>(group)];
  for (std::size_t index = 0; index < sums.size(); ++index) {
    for (double& sum : sums[index]) sum *= static_cast<double>(scales.beta);
    for (int rank = 0; rank < team_.size(); ++rank) {
      const std::vector<double> all = values(of_gradients, use, rank, group, static_cast<int>(index));
      for (std::size_t i = 0; i < all.size(); ++i) sums[index][i] += static_cast<double>(scales.alpha) * all[i];
    }
  }
}

void Training::finish() {
  parameters_.finish(stream_);
  for (int group = 0; group < parameters_.groups(); ++group) {
    const TensorView gradient = parameters_.gradient(group);
    std::vector<double> expected(static_cast<std::size_t>(gradient.numel()));  // 0 between the parameters
    for (const ParameterPiece& piece : parameters_.pieces(group)) {
      const auto& whole = sums_[static_cast<std::size_t>(group)][static_cast<std::size_t>(piece.parameter)];
      for (std::int64_t i = 0; i < piece.elements.count; ++i) {
        expected[static_cast<std::size_t>(piece.begin + i)] = whole[static_cast<std::size_t>(piece.elements.begin + i)];
      }
    }
    keep("gradient of group " + std::to_string(group) + " after use " + std::to_string(uses_), gradient,
         std::move(expected), stream_);
  }
  order_after(other_stream_, stream_, between_steps_);
}

void Training::keep(std::string what, const TensorView& view, std::vector<double> expected, StreamRef stream) {
  Kept& kept =
      kept_.emplace_back(std::move(what), GuardedTensor(team_, view.sizes(), view.dtype()), std::move(expected));
  team_.device().copy(stream, {.dst = kept.tensor.view().data(), .src = view.data(), .bytes = view.bytes()});
}

void Training::check() {
  team_.synchronize(stream_);
  team_.synchronize(other_stream_);
  for (const Kept& kept : kept_) {
    const Bytes got = kept.tensor.get();
    Bytes expected(got.size());
    store(kept.expected, kept.tensor.view().dtype(), expected.data());
    EXPECT_EQ(got, expected) << kept.what << ", rank " << team_.rank() << " of " << team_.size() << "\n"
                             << parameters_.describe();
  }
  kept_.clear();
  given_.clear();
}

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/reduce_scatter.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "collective/cached.hpp"
#include "collective/reduce_scatter/state.hpp"

namespace tandem {

ReduceScatter::ReduceScatter(const Team& team, const ReduceScatterSpec& spec, const CollectiveOptions& options)
    : Collective(std::make_unique<State>(team, spec, options)) {}

std::span<const std::string_view> ReduceScatter::algorithms(Tensors tensors) noexcept {
  static constexpr std::array<std::string_view, 5> out_of_symmetric{"direct", "mail", "one_kernel", "direct_kernel",
                                                                    "push"};
  static constexpr std::array<std::string_view, 5> out_of_plain{"staged", "fetch", "mail", "one_kernel", "push"};
  if (tensors == Tensors::plain) return out_of_plain;
  return out_of_symmetric;
}

std::string_view ReduceScatter::algorithm(std::int64_t count, Tensors tensors) const {
  return state<State>().algorithm(count, tensors);
}

void ReduceScatter::operator()(const SymmetricTensor& input, StreamRef stream) { state<State>().run(input, stream); }

void ReduceScatter::operator()(const SymmetricTensor& input, const TensorView& shard, StreamRef stream) {
  state<State>().run(input, shard, stream);
}

void ReduceScatter::operator()(const TensorView& input, const TensorView& shard, StreamRef stream) {
  state<State>().run(input, shard, stream);
}

namespace {

std::shared_ptr<ReduceScatter> kept_plan(const Team& team, const Dims& input, DType dtype, StreamRef stream) {
  const std::int64_t shard = longest_shard(input, std::max(team.size(), 1));
  return cached_plan<ReduceScatter, ReduceScatterSpec>(team, "reduce_scatter", shard, dtype, stream);
}

}  // namespace

void reduce_scatter(const Team& team, const TensorView& input, const TensorView& shard, StreamRef stream) {
  (*kept_plan(team, input.sizes(), input.dtype(), stream))(input, shard, stream);
}

void reduce_scatter(const Team& team, const SymmetricTensor& input, const TensorView& shard, StreamRef stream) {
  (*kept_plan(team, input.sizes(), input.dtype(), stream))(input, shard, stream);
}

void reduce_scatter(const Team& team, const SymmetricTensor& input, StreamRef stream) {
  (*kept_plan(team, input.sizes(), input.dtype(), stream))(input, stream);
}

}  // namespace tandem

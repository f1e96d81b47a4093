// SPDX-License-Identifier: Apache-2.0
#include "tandem/sharded/sharded_parameters.hpp"

#include <memory>

#include "sharded/sharded_parameters/state.hpp"

namespace tandem {

ShardedParameters::ShardedParameters(const Team& team, const ShardedSpec& spec, const ShardedOptions& options)
    : Plan(std::make_unique<State>(team, spec, options)) {}

int ShardedParameters::groups() const { return state<State>().groups(); }

TensorView ShardedParameters::shard(int group) const { return state<State>().shard(group); }

TensorView ShardedParameters::gradient(int group) const { return state<State>().gradient(group); }

TensorView ShardedParameters::all_shards() const { return state<State>().all_shards(); }

TensorView ShardedParameters::all_gradients() const { return state<State>().all_gradients(); }

std::span<const ParameterPiece> ShardedParameters::pieces(int group) const { return state<State>().pieces(group); }

void ShardedParameters::load(int group, int parameter, const TensorView& whole, StreamRef stream) {
  state<State>().load(group, parameter, whole, stream);
}

std::span<const TensorView> ShardedParameters::unshard(int group, StreamRef stream) {
  return state<State>().unshard(group, stream);
}

void ShardedParameters::reshard(int group, StreamRef stream) { state<State>().reshard(group, stream); }

std::span<const TensorView> ShardedParameters::gradients(int group, StreamRef stream) {
  return state<State>().gradients(group, stream);
}

void ShardedParameters::reduce_gradients(int group, StreamRef stream, GradientScales scales) {
  state<State>().reduce_gradients(group, stream, scales);
}

void ShardedParameters::finish(StreamRef stream) { state<State>().finish(stream); }

}  // namespace tandem

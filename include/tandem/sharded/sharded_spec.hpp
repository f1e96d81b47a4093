// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/dims.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/collective/shard.hpp"

namespace tandem {

/// One tensor of a model.
struct Parameter {
  std::string name{};  ///< for errors
  Dims sizes{};        ///< any, also without dimensions or without elements
};

/// The parameters that are gathered, and whose gradients are summed, at once: mostly those of one layer.
struct ParameterGroup {
  std::string name{};  ///< for errors
  std::vector<Parameter> parameters{};
};

/// Equal on all ranks.
struct ShardedSpec {
  std::vector<ParameterGroup> groups{};  ///< one at least
  DType dtype = bf16;                    ///< of the parameters, sharded and gathered: f32, bf16 or f16
  /// Of the gradients that a backward pass writes, and that cross between the ranks: `dtype` (nullopt) or f32. Their
  /// sums are f32 in any case.
  std::optional<DType> gradient_dtype{};
  /// The groups as a step uses them, by index; a group may occur any number of times. Empty: 0, 1, … and back to 0, as
  /// a forward pass and the backward pass behind it use them.
  std::vector<int> order{};
};

/// Equal on all ranks.
struct ShardedOptions {
  /// How many gathered groups each rank has room for, and as many gradients on their way: with 1, a group is gathered
  /// when it is used; with n, up to n - 1 groups ahead. nullopt: 2 where copies leave computation alone (on CUDA, and
  /// on the host over an emulated link), else 1: on the host there is nothing to hide behind.
  std::optional<int> buffers{};
  /// CUDA: the most SMs for a sum of gradients; nullopt: as many as is fastest. Nothing else takes SMs but one-block
  /// kernels that signal and wait.
  std::optional<int> sms{};
};

/// What a rank's shard of a group has of one of its parameters.
struct ParameterPiece {
  int parameter = 0;       ///< its index in the group
  Shard elements{};        ///< of the parameter, in row-major order
  std::int64_t begin = 0;  ///< where they begin in the shard

  friend bool operator==(const ParameterPiece&, const ParameterPiece&) = default;
};

}  // namespace tandem

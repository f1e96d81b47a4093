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
  DType dtype = bf16;                    ///< of the gathered parameters: f32, bf16 or f16
  /// Of the shards: `dtype` (nullopt), or f32. f32 shards of 16-bit parameters are the optimizer's master weights: each
  /// group is rounded to `dtype` once a step, ahead of its first gather.
  std::optional<DType> shard_dtype{};
  /// Of the gradients that a backward pass writes, and that cross between the ranks: `dtype` (nullopt) or f32. Their
  /// sums are f32 in any case.
  std::optional<DType> gradient_dtype{};
  /// The groups as a step uses them, by index; a group may occur any number of times. Empty: 0, 1, … and back to 0, as
  /// a forward pass and the backward pass behind it use them. After its last use the order begins again, so its first
  /// groups are gathered ahead once more; `finish` discards them.
  std::vector<int> order{};
};

/// Equal on all ranks.
struct ShardedOptions {
  /// How many groups a rank can hold gathered, and how many groups' gradients can be on their way, 1 to 64. With 1, a
  /// group is gathered once the one before is resharded; with n, n - 1 uses earlier than that. nullopt: 2 where copies
  /// leave computation alone (on CUDA, and on the host over an emulated link), else 1: on the host there is nothing to
  /// hide behind.
  std::optional<int> buffers{};
  /// CUDA: the most SMs for a sum of gradients, 1 or more; nullopt: as many as is fastest. Also taking SMs: one-block
  /// kernels that signal and wait, the kernels that round f32 shards and that scale sums (GradientScales), and, in
  /// graphs, copies within the GPU.
  std::optional<int> sms{};
};

/// How a group's gradient changes: gradient = alpha · (sum over the ranks) + beta · gradient.
struct GradientScales {
  float alpha = 1.0F;  ///< 1: the sum, as here by default; 1 / team.size(): the mean, as in DDP and FSDP
  float beta = 0.0F;   ///< 0: the earlier gradient is not read; 1: this one is added to it
};

/// What a rank's shard of a group has of one of its parameters.
struct ParameterPiece {
  int parameter = 0;       ///< its index in the group
  Shard elements{};        ///< of the parameter, in row-major order
  std::int64_t begin = 0;  ///< where they begin in the shard

  friend bool operator==(const ParameterPiece&, const ParameterPiece&) = default;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/base/dtype.hpp"
#include "tandem/collective/shard.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_spec.hpp"
#include "tandem/memory/symmetric_memory.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// The operands of one run of a row-parallel layer.
struct RowParallelOperands {
  const std::byte* x;
  const void* weight;
  const void* bias;
  const float* x_scale;  ///< null without scaling
  const float* weight_scale;
  std::byte* y;  ///< this rank's rows: the operand of beta, and the result
  std::int64_t m;
  const SymmetricMemory* symmetric = nullptr;  ///< where all rows of y begin on all ranks, if y is symmetric
};

/// A linear layer of which each rank has a share of K: its GEMMs give partial sums of all rows, which are summed over
/// the ranks, in rank order and in fp32. What the parts of such a plan have in common.
struct RowParallelLayer {
  enum class Rows : std::uint8_t { own, all };  ///< whose sums each rank gets: reduce-scatter, all-reduce

  Team team;
  LinearSpec spec;
  LinearChoice choice;
  Rows summed;
  std::uint32_t operation;  ///< in errors

  /// Of y.
  [[nodiscard]] std::size_t row_bytes() const noexcept {
    return static_cast<std::size_t>(spec.n) * size_of(spec.dtype_of_y());
  }
  /// Of the `m` rows of a run, those that this rank sums.
  [[nodiscard]] Shard own_rows(std::int64_t m) const { return shard_of(m, team.size(), team.rank()); }
  /// Where all rows of y begin, of which `y` has this rank's.
  [[nodiscard]] std::byte* all_rows(const RowParallelOperands& run) const {
    return run.y - static_cast<std::size_t>(own_rows(run.m).begin) * row_bytes();
  }
  /// The sum of `rows` rows, with the bias and activation that follow it.
  [[nodiscard]] Reduction sum_of(const RowParallelOperands& run, std::span<const void* const> sources,
                                 std::span<void* const> destinations, std::int64_t rows) const {
    return {.sources = sources,
            .destinations = destinations,
            .count = rows * spec.n,
            .dtype = spec.dtype_of_y(),
            .out_dtype = spec.dtype_of_y(),
            .bias = run.bias,
            .columns = spec.n,
            .activation = spec.activation,
            .most_blocks = choice.sms.value_or(0)};
  }
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "tandem/base/tensor_view.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/linear/linear_spec.hpp"
#include "tandem/team/team.hpp"

#include "linear/communication_streams.hpp"
#include "linear/linear_plan_state.hpp"
#include "linear/row_parallel/exchanged_sums.hpp"
#include "linear/row_parallel/layer.hpp"
#include "linear/row_parallel/partial_product.hpp"
#include "linear/row_parallel/partial_sums.hpp"

namespace tandem {

/// What LinearReduceScatter and LinearAllReduce have in common: their parts, and the algorithms that differ at most in
/// whether the sums are spread in the end, each defined in a file of its own in this folder.
class RowParallelState : public LinearPlanState {
 protected:
  /// Collective, as LinearPlanState.
  RowParallelState(const Team& team, LinearKind kind, const LinearSpec& spec, const LinearOptions& options);

  /// Checks a run's inputs, and returns its number of tokens.
  [[nodiscard]] std::int64_t expect_inputs(const LinearOperands& given) const;
  /// Those of a run of `m` tokens, whose sums go to `own_rows`.
  [[nodiscard]] static RowParallelOperands operands(const LinearOperands& given, std::byte* own_rows, std::int64_t m,
                                                    const SymmetricMemory* symmetric = nullptr);
  /// A run, whose work `algorithm` queues. Call after all checks.
  template <typename Algorithm> void run_whole(StreamRef stream, const Algorithm& algorithm) {
    begin(stream);
    whole_or_failed([&] {
      rejoin_if_thrown(communication_, stream, algorithm);
      if (sums_) sums_->finish(stream);
      end(stream);
    });
  }

  /// A team of one: the GEMM is the result.
  void alone(const RowParallelOperands& operands, StreamRef stream);
  /// Multiplies into the peers' memory, so that rows are transferred as they are computed.
  void direct(const RowParallelOperands& operands, StreamRef stream);
  /// Multiplies once, then communicates.
  void sequence(const RowParallelOperands& operands, StreamRef stream);

  [[nodiscard]] const PartialProduct& product() const noexcept { return product_; }
  /// Only in the algorithms of a team of two or more, but for `sequence`.
  [[nodiscard]] PartialSums& sums() noexcept { return *sums_; }
  [[nodiscard]] CommunicationStreams& communication() noexcept { return communication_; }

 private:
  /// Whether each rank gets the sums of all rows.
  [[nodiscard]] bool spreads() const noexcept { return layer_.summed == RowParallelLayer::Rows::all; }

  RowParallelLayer layer_;
  PartialProduct product_;
  ExchangedSums exchanged_;
  std::optional<PartialSums> sums_;  ///< none if the sums are exchanged, or there is nothing to sum
  CommunicationStreams communication_;
};

}  // namespace tandem

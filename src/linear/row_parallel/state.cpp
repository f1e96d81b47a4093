// SPDX-License-Identifier: Apache-2.0
#include "linear/row_parallel/state.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "linear/algorithms.hpp"
#include "linear/groups.hpp"

namespace tandem {
namespace {

using Rows = RowParallelLayer::Rows;

/// The rounds of a run, as parts of every rank's rows. Those of a reduce-scatter are groups, between two ranks whose
/// own rows' GEMMs add what the peer sent; otherwise it has none.
std::vector<ShardPart> round_parts(const RowParallelLayer& layer) {
  const int groups = std::max(layer.choice.groups, 1);
  if (layer.summed == Rows::all) return rounds_of(layer.choice.algorithm, groups);
  const bool adds = has_groups(layer.choice.algorithm) && own_product_adds(layer.spec, layer.team.size(), groups);
  return equal_parts(adds ? groups : 1);
}

}  // namespace

RowParallelState::RowParallelState(const Team& team, LinearKind kind, const LinearSpec& spec,
                                   const LinearOptions& options)
    : LinearPlanState(team, kind, spec, options, OwnShare::k),
      layer_{team, spec, choice(), kind == LinearKind::linear_all_reduce ? Rows::all : Rows::own, operation()},
      product_(layer_, own_product_adds(spec, team.size(), static_cast<int>(round_parts(layer_).size()))),
      exchanged_(layer_),
      communication_(team, choice().algorithm == tandem::sequence ? 0 : CommunicationStreams::for_copies(team)) {
  if (team.size() > 1 && !exchanged_) sums_.emplace(layer_, product_, round_parts(layer_));
  const std::string how = sums_ ? sums_->communication() : exchanged_ ? exchanged_.communication() : "none";
  describe_product(product_.gemm(), how, product_.describe_adding());
  Owners owners = product_.owners();
  append(owners, exchanged_.owners());
  if (sums_) append(owners, sums_->owners());
  keep_in_graphs(std::move(owners));
}

std::int64_t RowParallelState::expect_inputs(const LinearOperands& given) const {
  const std::int64_t m = tokens(given.x, "x", spec().x_layout == Layout::normal ? 0 : 1);
  expect_factors(given, m);
  expect_bias(given.bias);
  expect_auxiliary(given.aux, m);
  return m;
}

RowParallelOperands RowParallelState::operands(const LinearOperands& given, std::byte* own_rows, std::int64_t m,
                                               const SymmetricMemory* symmetric) {
  return {given.x.data_as<std::byte>(),
          given.weight.data(),
          given.bias.data(),
          given.x_scale.data_as<const float>(),
          given.weight_scale.data_as<const float>(),
          own_rows,
          m,
          symmetric};
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/base/dims.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_operands.hpp"
#include "tandem/linear/linear_spec.hpp"
#include "tandem/team/team.hpp"

#include "collective/plan_state.hpp"

namespace tandem {

/// What the linear layers' plans have in common behind their public classes: the spec, the cost model's choice for it,
/// and the checks of a run's tensors.
class LinearPlanState : public PlanState {
 public:
  [[nodiscard]] const LinearSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] const LinearChoice& choice() const noexcept { return choice_; }

 protected:
  /// Which of n and k is this rank's share, and so may differ from rank to rank.
  enum class OwnShare : bool { n, k };

  /// Collective; throws before anything is allocated. `extra`: what else must be equal on all ranks, as text.
  LinearPlanState(const Team& team, LinearKind kind, const LinearSpec& spec, const LinearOptions& options,
                  OwnShare own_share, std::string_view extra = "");

  /// The stored sizes of a [rows, columns] matrix.
  [[nodiscard]] static Dims stored(Layout layout, std::int64_t rows, std::int64_t columns);
  /// This run's number of tokens: the extent of dimension `dim` of `view`. Throws if it exceeds spec.m.
  [[nodiscard]] std::int64_t tokens(const TensorView& view, std::string_view argument, std::size_t dim) const;
  /// This rank's number of the `m` tokens.
  [[nodiscard]] std::int64_t own_rows(std::int64_t m) const;
  /// Throws unless x, of `rows` tokens, weight and their scales are what the spec asks for.
  void expect_factors(const LinearOperands& given, std::int64_t rows) const;
  /// Throws unless `bias` is what the spec asks for: [n], or nothing.
  void expect_bias(const TensorView& bias) const;
  /// Throws unless `aux` is what the spec asks for: [m, n], or nothing.
  void expect_auxiliary(const TensorView& aux, std::int64_t m) const;
  /// Throws if `output` overlaps one of `inputs`, given with their arguments' names.
  void expect_apart_from_inputs(const TensorView& output, std::string_view argument,
                                std::initializer_list<std::pair<std::string_view, const TensorView&>> inputs) const;
  /// The same of x, weight, bias and the scales.
  void expect_apart_from_inputs(const TensorView& output, std::string_view argument, const LinearOperands& given) const;
  /// Completes `describe` with the local GEMM and the communication. `parts`: how GEMMs of parts run, if not as the
  /// whole one does.
  void describe_product(const Gemm& gemm, const std::string& communication, const std::string& parts = "");

 private:
  /// Throws unless `scale` is what the spec asks for: one value, one for each of `count`, or nothing.
  void expect_scale(const TensorView& scale, std::string_view argument, std::int64_t count) const;

  LinearSpec spec_;
  LinearChoice choice_;
};

}  // namespace tandem

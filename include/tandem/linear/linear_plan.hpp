// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/plan.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_spec.hpp"

namespace tandem {

/// What the plans of linear layers have in common: a spec, and the choice that the cost model made of it. The tensors
/// of their runs are on the team's device, at any alignment of an element.
class TANDEM_API LinearPlan : public Plan {
 public:
  [[nodiscard]] const LinearSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] const LinearChoice& choice() const noexcept { return choice_; }

 protected:
  /// Which of n and k is a rank's own share, and so may differ from rank to rank.
  enum class OwnShare : bool { n, k };

  /// Collective; throws before anything is allocated. `extra` is what else must be equal on all ranks, in words.
  LinearPlan(const Team& team, LinearKind kind, const LinearSpec& spec, const LinearOptions& options,
             OwnShare own_share, std::string_view extra = "");
  ~LinearPlan() = default;
  LinearPlan(LinearPlan&&) = default;
  LinearPlan& operator=(LinearPlan&&) = default;

  /// The sizes of a [rows, columns] matrix as it is stored.
  [[nodiscard]] static Dims stored(Layout layout, std::int64_t rows, std::int64_t columns);
  /// The extent of `view` that counts this run's tokens: at most spec.m.
  [[nodiscard]] std::int64_t tokens(const TensorView& view, std::string_view argument, std::size_t dim) const;
  /// How many of `m` tokens are this rank's.
  [[nodiscard]] std::int64_t own_rows(std::int64_t m) const;
  /// Throws unless `bias` is what the spec asks for: [n], or nothing.
  void expect_bias(const TensorView& bias) const;
  /// Throws unless `aux` is what the spec asks for: [m, n], or nothing.
  void expect_auxiliary(const TensorView& aux, std::int64_t m) const;
  /// Throws where `output` shares memory with one of these, by their arguments' names.
  void expect_apart_from_inputs(const TensorView& output, std::string_view argument,
                                std::initializer_list<std::pair<std::string_view, const TensorView&>> inputs) const;
  /// Completes `describe` with what runs locally, and with what communicates. `parts`: how products of parts run,
  /// where that is another way than the whole's.
  void describe_product(const Gemm& gemm, const std::string& communication, const std::string& parts = "");

 private:
  LinearSpec spec_;
  LinearChoice choice_;
};

}  // namespace tandem

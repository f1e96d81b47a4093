// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "tandem/collective/all_reduce.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/team.hpp"

#include "language_model/tensor.hpp"

namespace tandem::language_model {

/// How a parameter is distributed: whole on every rank, or split by rows or columns.
enum class Split : std::uint8_t { none, rows, columns };

/// A trained parameter. The views are of this rank's part.
struct Parameter {
  std::string name;
  Dims full;  ///< over all ranks
  Split split = Split::none;
  double deviation = 0;  ///< standard deviation of the initial values
  TensorView master;     ///< f32: updated by the optimizer
  TensorView value;      ///< the same in the model's compute dtype
  TensorView gradient;   ///< f32
};

/// Memory that holds some of the parameters contiguously, so that the optimizer and the sum over ranks process them all
/// at once.
struct ParameterSlab {
  Tensor master;
  Tensor narrow;        ///< empty if the model computes in f32: the values are the masters
  Tensor own_gradient;  ///< empty if the gradients are in symmetric memory
  TensorView value;
  TensorView gradient;
};

/// All parameters of a model: first each layer declares its own, then `allocate` lays them out.
class Parameters {
 public:
  Parameters(Team team, DType dtype) : team_(std::move(team)), dtype_(dtype) {}

  /// Declares a parameter. The reference stays valid; its views are set by `allocate`.
  const Parameter& add(std::string name, const Dims& full, Split split, double deviation);

  /// Collective. Fills the masters with normally distributed values, which depend on the seed and the element's
  /// position in the full parameter, but not on the number of ranks.
  void allocate(std::uint64_t seed);

  /// Copies masters to values; call after changing the masters.
  void refresh(StreamRef stream) const;
  /// Sums over all ranks: the gradients of parameters that every rank has whole, since each has seen only its own
  /// tokens, and `loss`.
  void sum_over_ranks(StreamRef stream);

  /// f32[1]: this rank's share of the loss; after `sum_over_ranks`, the whole loss.
  [[nodiscard]] const TensorView& loss() const noexcept { return loss_; }

  [[nodiscard]] const std::deque<Parameter>& all() const noexcept { return parameters_; }
  [[nodiscard]] std::span<const ParameterSlab> slabs() const noexcept { return slabs_; }
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] const Team& team() const noexcept { return team_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }

 private:
  [[nodiscard]] Dims own_sizes(const Parameter& parameter) const;
  void initialize(const Parameter& parameter, std::uint64_t key) const;

  Team team_;
  DType dtype_;
  std::deque<Parameter> parameters_;
  std::array<ParameterSlab, 2> slabs_;  // first: whole on every rank; second: split
  SymmetricTensor shared_gradients_;    // of the first slab, followed by the loss
  std::vector<AllReduce> all_reduce_;   // one element after `allocate`
  TensorView loss_;
};

/// Collective. The full parameters of all ranks, or their gradients, on the host in fp32: for checks and checkpoints.
/// Throws Error if the ranks' copies of a parameter that each has whole differ.
enum class ParameterPart : std::uint8_t { value, gradient };
[[nodiscard]] std::vector<std::vector<float>> gather_full(const Parameters& parameters, ParameterPart part);

}  // namespace tandem::language_model

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

/// How a parameter lies over the ranks: whole on each of them, or a shard of its rows or columns on each.
enum class Split : std::uint8_t { none, rows, columns };

/// Something that is trained. The views are of this rank's part.
struct Parameter {
  std::string name;
  Dims full;  ///< of all ranks together
  Split split = Split::none;
  double deviation = 0;  ///< of the fresh values
  TensorView master;     ///< f32: what the optimizer changes
  TensorView value;      ///< the same in the dtype that the model computes in
  TensorView gradient;   ///< f32
};

/// A stretch of memory that holds some of the parameters one after the other, so that the optimizer, and the sum over
/// ranks, take them all at once.
struct ParameterSlab {
  Tensor master;
  Tensor narrow;        ///< none where the model computes in f32: its values are the masters
  Tensor own_gradient;  ///< none where the gradients are in symmetric memory
  TensorView value;
  TensorView gradient;
};

/// All parameters of a model: first each layer declares its own, then `allocate` lays them out.
class Parameters {
 public:
  Parameters(Team team, DType dtype) : team_(std::move(team)), dtype_(dtype) {}

  /// Declares a parameter. The reference stays valid; its views are there after `allocate`.
  const Parameter& add(std::string name, const Dims& full, Split split, double deviation);

  /// Collective. Fills the masters with normally distributed values, which depend on the seed and on an element's place
  /// in the full parameter, but not on the number of ranks.
  void allocate(std::uint64_t seed);

  /// Masters to values: after anything that changed them.
  void refresh(StreamRef stream) const;
  /// Adds up over all ranks: the gradients of what every rank has whole, since each has seen its own tokens only, and
  /// `loss`.
  void sum_over_ranks(StreamRef stream);

  /// f32[1]: this rank's share of the loss; after `sum_over_ranks`, all of it.
  [[nodiscard]] const TensorView& loss() const noexcept { return loss_; }

  [[nodiscard]] const std::deque<Parameter>& all() const noexcept { return parameters_; }
  [[nodiscard]] std::span<const ParameterSlab> slabs() const noexcept { return slabs_; }
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] const Team& team() const noexcept { return team_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }

 private:
  [[nodiscard]] Dims own_sizes(const Parameter& parameter) const;
  void initialise(const Parameter& parameter, std::uint64_t key) const;

  Team team_;
  DType dtype_;
  std::deque<Parameter> parameters_;
  std::array<ParameterSlab, 2> slabs_;  // what every rank has whole; what is split
  SymmetricTensor shared_gradients_;    // of the first slab, and the loss behind them
  std::vector<AllReduce> all_reduce_;   // one, once allocated
  TensorView loss_;
};

/// Collective. The full parameters of all ranks, or their gradients, on the host in fp32: for checks and checkpoints.
/// Throws Error if ranks do not agree on what each has whole.
enum class ParameterPart : std::uint8_t { value, gradient };
[[nodiscard]] std::vector<std::vector<float>> gather_full(const Parameters& parameters, ParameterPart part);

}  // namespace tandem::language_model

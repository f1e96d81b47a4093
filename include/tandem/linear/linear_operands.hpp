// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/concepts.hpp"
#include "tandem/base/tensor_view.hpp"

namespace tandem {

/// The tensors of one run of AllGatherLinear, LinearReduceScatter or LinearAllReduce, whose headers state their sizes;
/// those that the plan's spec does not ask for stay empty.
///
/// Scales are f32. With Scaling::per_tensor each is one element, [] or [1]; that of an x that is gathered is equal on
/// all ranks. With Scaling::per_row, x_scale has one for each token that this rank passes in x, weight_scale one for
/// each output, [n].
struct LinearOperands {
  TensorView x{};
  TensorView weight{};
  TensorView bias{};
  TensorView aux{};
  TensorView x_scale{};
  TensorView weight_scale{};
  TensorView y{};
};
static_assert(Plain<LinearOperands>);

}  // namespace tandem

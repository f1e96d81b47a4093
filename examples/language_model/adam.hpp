// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "language_model/kernels.hpp"
#include "language_model/parameters.hpp"
#include "language_model/tensor.hpp"

namespace tandem::language_model {

/// Adam in fp32; each rank updates the parameters that it holds. Parameters that every rank has whole stay equal, since
/// their gradients are bitwise identical on all ranks.
class Adam {
 public:
  Adam(const Parameters& parameters, const Kernels& kernels);

  /// Updates the masters from their gradients, and refreshes the values.
  void step(float learning_rate, StreamRef stream);

 private:
  const Parameters& parameters_;
  const Kernels& kernels_;
  std::vector<Tensor> means_, variances_;  // one per slab
  AdamStep step_{.step = 0};
};

}  // namespace tandem::language_model

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "language_model/kernels.hpp"
#include "language_model/parameters.hpp"
#include "language_model/tensor.hpp"

namespace tandem::language_model {

/// Adam, in fp32, each rank on the parameters that it holds. What all ranks have whole stays equal, since its gradients
/// are the same bits on all.
class Adam {
 public:
  Adam(const Parameters& parameters, const Kernels& kernels);

  /// Changes the masters by their gradients, and refreshes the values.
  void step(float learning_rate, StreamRef stream);

 private:
  const Parameters& parameters_;
  const Kernels& kernels_;
  std::vector<Tensor> means_, variances_;  // of each slab
  AdamStep step_{.step = 0};
};

}  // namespace tandem::language_model

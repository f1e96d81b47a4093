// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/device/attention.hpp"

namespace tandem::testing {

/// Attention and its gradients in fp64, and how far an actual result may be off. With u the unit roundoff of fp32, and
/// ε that of the dtype, a probability p of a score s may be off by p · (2ε + u · (8 + (4 + √d) · scale · |q|·|k|)),
/// with the row's largest |q|·|k|: kernels round or truncate probabilities to the dtype before they multiply them. To
/// that are added the roundings of what is stored, and that which `out` has had when gradients are computed from it.
class AttentionOracle {
 public:
  struct Values {
    std::vector<double> value;
    std::vector<double> allowed;  ///< the largest |actual - value|
    /// Σ of the terms' absolute values: a result that is the sum of rounded parts may be off by ε times that, too.
    std::vector<double> magnitude;
  };

  /// Tensors as AttentionSpec says; without `grad_out`, the forward results only.
  AttentionOracle(const AttentionSpec& spec, std::span<const double> q, std::span<const double> k,
                  std::span<const double> v, std::span<const double> grad_out = {});

  Values out;
  Values lse;
  Values dq;
  Values dk;
  Values dv;

 private:
  struct Head;
  void forward(const Head& head);
  void backward(const Head& head);

  AttentionSpec spec_;
  std::span<const double> q_;
  std::span<const double> k_;
  std::span<const double> v_;
  std::span<const double> grad_out_;
};

}  // namespace tandem::testing

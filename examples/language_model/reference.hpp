// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "language_model/model.hpp"
#include "language_model/text.hpp"

namespace tandem::language_model {

/// Values, and the error bound of each: see reference_step.
struct ReferenceTensor {
  std::vector<double> value;
  std::vector<double> bound;
};

/// One step's loss, and its gradients in the order in which Model declares its parameters.
struct ReferenceStep {
  ReferenceTensor loss;
  std::vector<ReferenceTensor> gradients;
};

/// The same step as Model's, on one rank, in plain fp64 loops that share no code with Tandem. `parameters` are the full
/// values that the model computed with (gather_full), `batch` the tokens of all ranks.
///
/// The bound is that of a single product, √K · ε · |A|·|B|, propagated through the whole step. To first order, and with
/// independent rounding errors, variances add: a product C = A·B of K terms, whose operands' errors have the variances
/// V(A) and V(B), has
///
///     V(C) = (V(A) + (K · ε₃₂² + ε²) · A²) · B² + A² · V(B) + ε² · C²
///
/// where ε₃₂ is fp32's roundoff (sums are kept in fp32), ε the dtype's (what is stored or sent is rounded to it), and
/// squares are elementwise. Norms, GELU and softmax propagate variances by their derivatives. A result may be off by
/// eight standard deviations; one in millions of independent normal errors exceeds five.
///
/// Errors of different results need not be independent, for two reasons:
/// - One rounding moves many later results together. A row's scale moves the whole row, and where weights have learned
///   a few directions, errors along these accumulate. The gradient of a rare byte that one token's context repeats (a
///   line of dashes) is such a sum: its error reached 14 deviations. So the step is also run `samples` times, at least
///   once, with each rounding moved by one deviation, up or down at random (stochastic arithmetic: Vignes, 1993), and
///   where a row of a gradient, or an element of it, moves by more than its variances predict, these are raised to
///   match. The samples determine it to within about 1/√(2 · samples).
/// - Different roundings are alike. A model that has learned little more than byte frequencies has nearly the same
///   activations for every token, and they round alike. So a gradient, which is a sum over tokens, may also drift by
///   one deviation of each of its terms, all with the same sign; the bound of a single product is wider. A test with
///   stochastically rounded bf16, whose errors are independent, confirmed the cause: with 4096 tokens and 2 blocks of
///   hidden 256, step 8 reached 0.31 of the bound without drift; rounded to nearest, 2.8 times it.
[[nodiscard]] ReferenceStep reference_step(const ModelOptions& options, std::span<const std::vector<float>> parameters,
                                           const Tokens& batch, int samples = 4);

}  // namespace tandem::language_model

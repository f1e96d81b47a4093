// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "language_model/trainer.hpp"

namespace tandem::tools {

/// A step compared with the reference: errors as a fraction of their bounds.
struct StepCheck {
  std::int64_t step = 0;
  double loss = 0;
  double reference_loss = 0;
  double loss_share = 0;
  double gradient_share = 0;   ///< of the worst element of all gradients
  std::string worst_gradient;  ///< the parameter that it belongs to

  [[nodiscard]] bool passed() const noexcept { return loss_share <= 1 && gradient_share <= 1; }  // false for NaN
};
/// "check step 1: loss 5.5452 vs 5.5452, worst gradient 0.31 of its bound (block0.up.weight): ok"
[[nodiscard]] std::string to_string(const StepCheck& check);

/// Collective. Runs the trainer's next step; rank 0 repeats it alone, in plain fp64 loops, from the parameters gathered
/// before it. The result is the same on every rank.
[[nodiscard]] StepCheck checked_step(language_model::Trainer& trainer);

}  // namespace tandem::tools

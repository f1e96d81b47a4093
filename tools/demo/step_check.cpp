// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/step_check.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "base/format.hpp"
#include "language_model/reference.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

using language_model::ParameterPart;
using language_model::ReferenceStep;
using language_model::ReferenceTensor;

// How long the other ranks wait for the one that computes the reference.
constexpr std::chrono::minutes patience{10};

// Few samples determine the bound only to within a third; many take four times as long, and are used only if an error
// is that `close` to the bound.
constexpr int few_samples = 4;
constexpr int many_samples = 16;
constexpr double close = 0.5;

/// |out − reference| as a fraction of the bound; NaN becomes infinity.
double share(double out, double reference, double bound) {
  const double error = std::abs(out - reference);
  if (error == 0) return 0;
  const double result = error / bound;
  return std::isnan(result) ? std::numeric_limits<double>::infinity() : result;
}

/// Fills in the results of `check`, and returns the index of the parameter with the worst gradient.
std::size_t compare(StepCheck& check, const ReferenceStep& reference,
                    const std::vector<std::vector<float>>& gradients) {
  std::size_t worst = 0;
  check.reference_loss = reference.loss.value[0];
  check.loss_share = share(check.loss, reference.loss.value[0], reference.loss.bound[0]);
  check.gradient_share = 0;
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const ReferenceTensor& wanted = reference.gradients[p];
    for (std::size_t i = 0; i < wanted.value.size(); ++i) {
      const double here = share(static_cast<double>(gradients[p][i]), wanted.value[i], wanted.bound[i]);
      if (here > check.gradient_share) {
        check.gradient_share = here;
        worst = p;
      }
    }
  }
  return worst;
}

}  // namespace

std::string to_string(const StepCheck& check) {
  return format("check step {}: loss {:.4f} vs {:.4f}, worst gradient {:.2f} of its bound ({}): {}", check.step,
                check.loss, check.reference_loss, check.gradient_share, check.worst_gradient,
                check.passed() ? "ok" : "WRONG");
}

StepCheck checked_step(language_model::Trainer& trainer) {
  const language_model::Parameters& parameters = trainer.model().parameters();
  const Team& team = parameters.team();
  const auto values = gather_full(parameters, ParameterPart::value);
  const language_model::Tokens batch = trainer.next_batch();
  StepCheck check;
  check.loss = trainer.step();
  check.step = trainer.steps();
  const auto gradients = gather_full(parameters, ParameterPart::gradient);

  const auto timeout = team.timeout();
  team.set_timeout(std::max<std::chrono::milliseconds>(timeout, patience));
  std::size_t worst = 0;
  if (team.rank() == 0) {
    for (const int samples : {few_samples, many_samples}) {
      worst = compare(check, reference_step(trainer.model().options(), values, batch, samples), gradients);
      if (std::max(check.loss_share, check.gradient_share) <= close) break;
    }
  }
  const std::vector<double> outcome = gather_numbers(
      team, {check.reference_loss, check.loss_share, check.gradient_share, static_cast<double>(worst)})[0];
  team.set_timeout(timeout);
  check.reference_loss = outcome[0];
  check.loss_share = outcome[1];
  check.gradient_share = outcome[2];
  check.worst_gradient = parameters.all()[static_cast<std::size_t>(outcome[3])].name;
  return check;
}

}  // namespace tandem::tools

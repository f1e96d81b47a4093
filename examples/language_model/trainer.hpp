// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tandem/team/team.hpp"

#include "language_model/adam.hpp"
#include "language_model/model.hpp"
#include "language_model/text.hpp"

namespace tandem::language_model {

struct TrainingOptions {
  ModelOptions model;
  std::int64_t steps = 300;
  float learning_rate = 6e-3F;  ///< the highest: it rises to it in a tenth of the steps, then falls along a cosine
  std::uint64_t seed = 1;       ///< of the batches
};

/// Trains a model on a text, over all ranks of a team.
class Trainer {
 public:
  /// Collective. `text` outlives the trainer.
  Trainer(const Team& team, const Text& text, const TrainingOptions& options);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  /// Collective. One step; gives its loss in nats a byte, the same on every rank. The host waits once, for the loss.
  double step();
  /// Collective. How the text goes on after `prompt`, which is cut or padded to the model's context. Only rank 0 gets
  /// it; the others help.
  [[nodiscard]] std::string write(const std::string& prompt, std::int64_t count, double temperature);

  /// What the next step learns from, of all ranks together.
  [[nodiscard]] Tokens next_batch() const;
  /// How many steps were made.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }
  [[nodiscard]] const Model& model() const noexcept { return model_; }
  [[nodiscard]] const Stream& stream() const noexcept { return stream_; }

 private:
  [[nodiscard]] float learning_rate() const;

  Team team_;
  const Text& text_;
  TrainingOptions options_;
  Stream stream_;
  Model model_;
  Adam adam_;
  Tensor contexts_;  // u8 [m_r, context]
  Tensor targets_;   // u8 [m_r]
  std::int64_t steps_ = 0;
};

}  // namespace tandem::language_model

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
  float learning_rate = 6e-3F;  ///< scales a linear warm-up over a tenth of the steps times a cosine decay to 5%
  std::uint64_t seed = 1;       ///< of the batches
};

/// Trains a model on a text, over all ranks of a team.
class Trainer {
 public:
  /// Collective. `text` must outlive the trainer.
  Trainer(const Team& team, const Text& text, const TrainingOptions& options);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  /// Collective. One step; returns its loss in nats per byte, equal on every rank. The host waits once, for the loss.
  double step();
  /// Collective. Generates `count` bytes that continue `prompt`, which is cut or padded to the model's context.
  /// Returned on rank 0 only, empty on the others.
  [[nodiscard]] std::string write(const std::string& prompt, std::int64_t count, double temperature);

  /// The batch of the next step, over all ranks.
  [[nodiscard]] Tokens next_batch() const;
  /// The number of steps done.
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

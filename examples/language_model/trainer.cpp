// SPDX-License-Identifier: Apache-2.0
#include "language_model/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "language_model/random.hpp"
#include "language_model/scalars.hpp"

namespace tandem::language_model {
namespace {

/// Samples from softmax(logits / temperature), given a `uniform` number in [0, 1).
std::uint8_t draw(const std::vector<double>& logits, double temperature, double uniform) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> sums;
  double sum = 0;
  for (const double logit : logits) sums.push_back(sum += std::exp((logit - highest) / temperature));
  const auto place = std::upper_bound(sums.begin(), sums.end() - 1, uniform * sum);
  return static_cast<std::uint8_t>(place - sums.begin());
}

}  // namespace

Trainer::Trainer(const Team& team, const Text& text, const TrainingOptions& options)
    : team_(team),
      text_(text),
      options_(options),
      stream_(team.device()),
      model_(team, options.model),
      adam_(model_.parameters(), model_.kernels()) {
  const std::int64_t rows = shard_of(options.model.tokens, team.size(), team.rank()).count;
  contexts_ = Tensor(team.shared_device(), {rows, options.model.context}, u8);
  targets_ = Tensor(team.shared_device(), {rows}, u8);
  model_.parameters().refresh(stream_);
  team.synchronize(stream_);
}

// A step that threw may have left work queued that uses memory freed here. Each wait in it has a deadline.
Trainer::~Trainer() {
  try {
    stream_.synchronize();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the relevant error was thrown earlier
  }
}

float Trainer::learning_rate() const {
  const double done = static_cast<double>(steps_) / static_cast<double>(options_.steps);
  const double rise =
      std::min(1.0, (static_cast<double>(steps_) + 1) / (0.1 * static_cast<double>(options_.steps) + 1));
  const double fall = 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, done)));
  return options_.learning_rate * static_cast<float>(rise * (0.05 + 0.95 * fall));
}

Tokens Trainer::next_batch() const { return text_.sample(options_.seed, steps_, {0, options_.model.tokens}); }

double Trainer::step() {
  const std::int64_t tokens = options_.model.tokens;
  const Tokens mine = text_.sample(options_.seed, steps_, shard_of(tokens, team_.size(), team_.rank()));
  Device& device = team_.device();
  device.upload(contexts_.view().data(), mine.contexts.data(), mine.contexts.size());
  device.upload(targets_.view().data(), mine.targets.data(), mine.targets.size());

  model_.forward(contexts_.view(), tokens, stream_);
  model_.backward(contexts_.view(), targets_.view(), tokens, stream_);
  adam_.step(learning_rate(), stream_);
  ++steps_;

  team_.synchronize(stream_);
  float loss = 0;
  device.download(&loss, model_.loss().data(), sizeof(loss));
  return loss;
}

std::string Trainer::write(const std::string& prompt, std::int64_t count, double temperature) {
  // One token at a time: it belongs to rank 0, and every other rank's shard of the tokens is empty.
  const auto context = static_cast<std::size_t>(options_.model.context);
  const bool writes = team_.rank() == 0;
  const TensorView shard = contexts_.rows(writes ? 1 : 0);
  const DType dtype = options_.model.dtype;
  std::string text = std::string(context, ' ') + prompt;
  std::vector<double> logits(byte_values);
  std::vector<std::byte> raw(byte_values * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    team_.device().upload(shard.data(), text.data() + text.size() - context, shard.bytes());
    model_.forward(shard, 1, stream_);
    team_.synchronize(stream_);
    if (!writes) continue;
    team_.device().download(raw.data(), model_.logits().view().data(), raw.size());
    for (std::size_t j = 0; j < logits.size(); ++j) logits[j] = load_scalar(raw.data() + j * size_of(dtype), dtype);
    text += static_cast<char>(draw(logits, temperature, random_uniform(options_.seed, static_cast<std::uint64_t>(i))));
  }
  return writes ? text.substr(context + prompt.size()) : "";
}

}  // namespace tandem::language_model

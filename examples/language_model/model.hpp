// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "tandem/team/team.hpp"

#include "language_model/kernels.hpp"
#include "language_model/layers.hpp"
#include "language_model/parameters.hpp"
#include "language_model/tensor.hpp"

namespace tandem::language_model {

inline constexpr std::int64_t byte_values = 256;

struct ModelOptions {
  std::int64_t tokens = 512;    ///< per step, over all ranks
  std::int64_t context = 64;    ///< how many bytes the next one is predicted from
  std::int64_t embedding = 16;  ///< size of a byte's embedding
  std::int64_t hidden = 256;    ///< size of a token's state between the blocks
  std::int64_t width = 1024;    ///< and inside a block
  std::int64_t layers = 2;      ///< number of blocks
  DType dtype = f32;            ///< of GEMMs and activations: f32, f16 or bf16
  std::uint64_t seed = 1;       ///< of the initial parameters
};

/// x += W₂·gelu(W₁·norm(x) + b₁) + b₂. Between blocks, each rank has its shard of the tokens; inside a block, its share
/// of the width.
class Block {
 public:
  /// Collective.
  Block(Parameters& parameters, const Kernels& kernels, const std::string& name, const ModelOptions& options);

  /// x: [m_r, hidden], of `tokens` tokens over all ranks.
  void forward(const TensorView& x, std::int64_t tokens, StreamRef stream);
  /// dx: [m_r, hidden]: on entry the gradient of forward's result, on return that of its input.
  void backward(const TensorView& dx, std::int64_t tokens, StreamRef stream);

  [[nodiscard]] std::string describe() const { return up_.describe() + "\n" + down_.describe(); }

 private:
  const Kernels& kernels_;
  ColumnParallel up_;
  RowParallel down_;
  Tensor normed_, dnormed_;          // [m_r, hidden]
  Tensor scale_;                     // f32 [m_r]
  Tensor before_, after_, dbefore_;  // [m, width_r]: before and after the GELU
};

/// Predicts the next byte from the last `context` ones: embedding, projection to `hidden`, blocks, and a head that
/// scores the 256 bytes. Tensor- and sequence-parallel over all ranks of a team.
class Model {
 public:
  /// Collective.
  Model(const Team& team, const ModelOptions& options);

  /// contexts: u8 [m_r, context], this rank's shard of `tokens` tokens (at most options.tokens).
  void forward(const TensorView& contexts, std::int64_t tokens, StreamRef stream);
  /// After `forward` of the same contexts: computes every gradient, and `loss`, the mean over all tokens of all ranks.
  /// targets: u8 [m_r], the bytes that came next.
  void backward(const TensorView& contexts, const TensorView& targets, std::int64_t tokens, StreamRef stream);

  /// [m_r, 256], of the last `forward`.
  [[nodiscard]] const Tensor& logits() const noexcept { return logits_; }
  /// f32[1], of the last `backward`; the same on every rank.
  [[nodiscard]] const TensorView& loss() const noexcept { return parameters_.loss(); }

  [[nodiscard]] Parameters& parameters() noexcept { return parameters_; }
  [[nodiscard]] const Parameters& parameters() const noexcept { return parameters_; }
  /// The plans that a block runs; the same in all blocks.
  [[nodiscard]] std::string describe_block() const { return blocks_.empty() ? "" : blocks_.front().describe(); }
  [[nodiscard]] const Kernels& kernels() const noexcept { return *kernels_; }
  [[nodiscard]] const ModelOptions& options() const noexcept { return options_; }

 private:
  Device& device_;
  ModelOptions options_;
  std::unique_ptr<Kernels> kernels_;
  Parameters parameters_;
  const Parameter& embedding_;  // [256, embedding]
  Linear projection_;           // context·embedding to hidden
  std::deque<Block> blocks_;
  Linear head_;                  // hidden to 256
  Tensor embedded_, dembedded_;  // [m_r, context·embedding]
  Tensor x_, dx_;                // [m_r, hidden]
  Tensor normed_, dnormed_;      // [m_r, hidden]
  Tensor scale_;                 // f32 [m_r]
  Tensor logits_, dlogits_;      // [m_r, 256]
  Tensor losses_;                // f32 [m_r]
};

}  // namespace tandem::language_model

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/team/team.hpp"

#include "language_model/tensor.hpp"
#include "transformer_layer/linear.hpp"

namespace tandem::transformer_layer {

using language_model::Tensor;

/// A Llama layer. Llama-70B: hidden 8192, MLP 28672, and 10240 outputs of QKV: 64 query heads and 8 key and 8 value
/// heads of 128 numbers each.
struct LayerSizes {
  std::int64_t tokens = 0;  ///< over all ranks
  std::int64_t hidden = 0;
  std::int64_t mlp = 0;  ///< of gate and up projection each: one GEMM has 2 · mlp outputs
  std::int64_t qkv = 0;
};

/// Llama-70B's dimensions divided by 32 (and 1/16 of the tokens): a laptop runs it in milliseconds.
inline constexpr LayerSizes small_layer{.tokens = 512, .hidden = 256, .mlp = 896, .qkv = 320};
inline constexpr LayerSizes llama_70b{.tokens = 8192, .hidden = 8192, .mlp = 28672, .qkv = 10240};

/// What is split over the ranks, besides the tokens of the transferred tensors: the outputs (column-parallel) or the
/// inputs (row-parallel).
enum class Split : std::uint8_t { outputs, inputs };

/// One of the layer's linear parts.
struct Part {
  std::string name;
  Split split = Split::outputs;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
};

/// In the order of the forward pass: "qkv", "out" (attention's output projection), "up" (gate and up, one GEMM) and
/// "down".
[[nodiscard]] std::vector<Part> parts_of(const LayerSizes& sizes);

/// The global tensors of a part: x [tokens, inputs], the weight [outputs, inputs], y [tokens, outputs]. Gradients have
/// the sizes of their tensors.
enum class Operand : std::uint8_t { x, weight, y };

/// The rows and columns of a global tensor that one rank has.
struct Block {
  Shard rows;
  Shard columns;
};
[[nodiscard]] Block block_of(const Part& part, Operand operand, std::int64_t tokens, int ranks, int rank);

/// One rank's tensors for a part: its inputs and its results.
struct Operands {
  Tensor x, weight, dy;
  Tensor y, dx, dw;
};

/// Local. This rank's blocks of x, weight and dy, filled by value_at; y, dx and dw have every bit set (NaNs). `part` is
/// the part's index.
[[nodiscard]] Operands make_operands(const Team& team, const LayerSizes& sizes, std::size_t part, DType dtype,
                                     std::uint64_t seed);
/// make_operands for LocalLinear: this rank's share of inputs or outputs, but all tokens of every tensor.
[[nodiscard]] Operands make_local_operands(const Team& team, const LayerSizes& sizes, std::size_t part, DType dtype,
                                           std::uint64_t seed);

/// A transformer layer's linear parts, forward and backward, tensor- and sequence-parallel over a team: between the
/// parts, each rank has its shard of the tokens or its share of the features.
///
/// What is between the parts is left out: norms, attention, SwiGLU, residual sums. Each part has its own x and dy, so
/// every result is one product that can be checked element by element.
class TransformerLayer {
 public:
  /// Collective.
  TransformerLayer(const Team& team, const LayerSizes& sizes, DType dtype, const LinearOptions& options = {});
  /// Collective. One rank's GEMMs without the communication; takes the operands of make_local_operands.
  [[nodiscard]] static TransformerLayer local(const Team& team, const LayerSizes& sizes, DType dtype);

  /// `operands` are in the order of the parts.
  void forward(const std::vector<Operands>& operands, StreamRef stream);
  void backward(const std::vector<Operands>& operands, StreamRef stream);

  [[nodiscard]] ParallelLinear& part(std::size_t number) { return *parts_[number]; }

 private:
  TransformerLayer() = default;
  std::vector<std::unique_ptr<ParallelLinear>> parts_;
};

}  // namespace tandem::transformer_layer

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

/// A layer as Llama has it. Llama-70B: hidden 8192, MLP 28672, and 10240 outputs of QKV: 64 heads' queries and 8 heads'
/// keys and values, 128 numbers each.
struct LayerSizes {
  std::int64_t tokens = 0;  ///< of all ranks
  std::int64_t hidden = 0;
  std::int64_t mlp = 0;  ///< of the gate, and as many of what it weighs: one product has 2 · mlp outputs
  std::int64_t qkv = 0;
};

/// A thirty-second of Llama-70B in every dimension: a laptop runs it in milliseconds.
inline constexpr LayerSizes small_layer{.tokens = 512, .hidden = 256, .mlp = 896, .qkv = 320};
inline constexpr LayerSizes llama_70b{.tokens = 8192, .hidden = 8192, .mlp = 28672, .qkv = 10240};

/// What is split over the ranks, beside the tokens of what travels: the outputs (column-parallel) or the inputs
/// (row-parallel).
enum class Split : std::uint8_t { outputs, inputs };

/// One of the layer's linear parts.
struct Part {
  std::string name;
  Split split = Split::outputs;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
};

/// In the order of the forward pass: "qkv", "out" (attention's output projection), "up" (gate and up, one product) and
/// "down".
[[nodiscard]] std::vector<Part> parts_of(const LayerSizes& sizes);

/// The global tensors of a part: x [tokens, inputs], the weight [outputs, inputs], y [tokens, outputs]. Gradients are
/// as what they are the gradients of.
enum class Operand : std::uint8_t { x, weight, y };

/// Rows and columns of a global tensor that one rank has.
struct Block {
  RowRange rows;
  RowRange columns;
};
[[nodiscard]] Block block_of(const Part& part, Operand operand, std::int64_t tokens, int ranks, int rank);

/// One rank's tensors for a part: what it is given, and what it computes.
struct Operands {
  Tensor x, weight, dy;
  Tensor y, dx, dw;
};

/// Local. This rank's blocks of x, weight and dy, of value_at; y, dx and dw have every bit set: NaNs. `part` is the
/// part's number.
[[nodiscard]] Operands make_operands(const Team& team, const LayerSizes& sizes, std::size_t part, DType dtype,
                                     std::uint64_t seed);
/// The same for LocalLinear: this rank's share of inputs or outputs, but all tokens of everything.
[[nodiscard]] Operands make_local_operands(const Team& team, const LayerSizes& sizes, std::size_t part, DType dtype,
                                           std::uint64_t seed);

/// A transformer layer's linear parts, forward and backward, tensor- and sequence-parallel over a team: between the
/// parts, each rank has its shard of the tokens or its share of the features.
///
/// What stands between the parts is left out: norms, attention, SwiGLU, the residual sums. Each part has an x and a dy
/// of its own, so every result is one product, which can be checked element by element.
class TransformerLayer {
 public:
  /// Collective.
  TransformerLayer(const Team& team, const LayerSizes& sizes, DType dtype, const LinearOptions& options = {});
  /// What one rank multiplies, without the communication; for make_local_operands. Collective.
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

// SPDX-License-Identifier: Apache-2.0
#include "transformer_layer/layer.hpp"

#include <cstddef>
#include <cstring>

#include "tandem/base/error.hpp"
#include "tandem/base/scalar.hpp"

#include "transformer_layer/values.hpp"

namespace tandem::transformer_layer {
namespace {

Dims global_sizes(const Part& part, Operand operand, std::int64_t tokens) {
  switch (operand) {
    case Operand::x: return {tokens, part.inputs};
    case Operand::weight: return {part.outputs, part.inputs};
    case Operand::y: return {tokens, part.outputs};
  }
  return {};
}

template <typename T> std::vector<T> values(const Block& block, std::int64_t columns, std::uint64_t key) {
  std::vector<T> out;
  out.reserve(static_cast<std::size_t>(block.rows.count * block.columns.count));
  for (std::int64_t r = block.rows.begin; r < block.rows.begin + block.rows.count; ++r) {
    const std::int64_t first = r * columns + block.columns.begin;
    for (std::int64_t place = first; place < first + block.columns.count; ++place) {
      out.push_back(T(value_at(key, static_cast<std::uint64_t>(place))));
    }
  }
  return out;
}

/// A block of a global tensor with `columns` columns, in device memory.
Tensor filled(const Team& team, const Block& block, std::int64_t columns, DType dtype, std::uint64_t key) {
  Tensor tensor(team.shared_device(), {block.rows.count, block.columns.count}, dtype);
  const auto upload = [&](auto type) {
    team.device().upload(tensor.view(), values<decltype(type)>(block, columns, key));
  };
  switch (dtype) {
    case DType::f32: upload(float{}); break;
    case DType::f16: upload(Half{}); break;
    case DType::bf16: upload(BFloat16{}); break;
    default: throw Unsupported("a transformer layer of " + std::string(name(dtype)) + "; allowed: f32, f16, bf16");
  }
  return tensor;
}

Tensor poisoned(const Team& team, const Block& block, DType dtype) {
  Tensor tensor(team.shared_device(), {block.rows.count, block.columns.count}, dtype);
  const std::vector<std::byte> ones(tensor.view().bytes(), std::byte{0xff});
  team.device().upload(tensor.view().data(), ones.data(), ones.size());
  return tensor;
}

Operands make(const Team& team, const LayerSizes& sizes, std::size_t number, DType dtype, std::uint64_t seed,
              bool all_tokens) {
  const Part part = parts_of(sizes)[number];
  const auto block = [&](Operand operand) {
    Block own = block_of(part, operand, sizes.tokens, team.size(), team.rank());
    if (all_tokens && operand != Operand::weight) own.rows = {0, sizes.tokens};
    return own;
  };
  const auto given = [&](Operand operand, std::uint64_t tensor) {
    return filled(team, block(operand), global_sizes(part, operand, sizes.tokens)[1], dtype,
                  key_of(seed, 3 * number + tensor));
  };
  Operands operands;
  operands.x = given(Operand::x, 0);
  operands.weight = given(Operand::weight, 1);
  operands.dy = given(Operand::y, 2);
  operands.y = poisoned(team, block(Operand::y), dtype);
  operands.dx = poisoned(team, block(Operand::x), dtype);
  operands.dw = poisoned(team, block(Operand::weight), dtype);
  return operands;
}

}  // namespace

std::vector<Part> parts_of(const LayerSizes& sizes) {
  return {{"qkv", Split::outputs, sizes.hidden, sizes.qkv},
          {"out", Split::inputs, sizes.hidden, sizes.hidden},
          {"up", Split::outputs, sizes.hidden, 2 * sizes.mlp},
          {"down", Split::inputs, sizes.mlp, sizes.hidden}};
}

Block block_of(const Part& part, Operand operand, std::int64_t tokens, int ranks, int rank) {
  const Dims whole = global_sizes(part, operand, tokens);
  Block block{{0, whole[0]}, {0, whole[1]}};
  // If the outputs are split, so are the weight's rows and y's columns; x comes as shards of the tokens (rows). If the
  // inputs are split, it is the reverse.
  const Operand by_columns = part.split == Split::outputs ? Operand::y : Operand::x;
  const bool weight_by_columns = part.split == Split::inputs;
  const bool columns = operand == by_columns || (operand == Operand::weight && weight_by_columns);
  (columns ? block.columns : block.rows) = shard_of(columns ? whole[1] : whole[0], ranks, rank);
  return block;
}

Operands make_operands(const Team& team, const LayerSizes& sizes, std::size_t part, DType dtype, std::uint64_t seed) {
  return make(team, sizes, part, dtype, seed, false);
}

Operands make_local_operands(const Team& team, const LayerSizes& sizes, std::size_t part, DType dtype,
                             std::uint64_t seed) {
  return make(team, sizes, part, dtype, seed, true);
}

TransformerLayer::TransformerLayer(const Team& team, const LayerSizes& sizes, DType dtype,
                                   const LinearOptions& options) {
  for (const Part& part : parts_of(sizes)) {
    const LinearSizes linear{.tokens = sizes.tokens, .inputs = part.inputs, .outputs = part.outputs};
    if (part.split == Split::outputs) {
      parts_.push_back(std::make_unique<ColumnParallel>(team, linear, dtype, options));
    } else {
      parts_.push_back(std::make_unique<RowParallel>(team, linear, dtype, options));
    }
  }
}

TransformerLayer TransformerLayer::local(const Team& team, const LayerSizes& sizes, DType dtype) {
  TransformerLayer layer;
  for (const Part& part : parts_of(sizes)) {
    const Block weight = block_of(part, Operand::weight, sizes.tokens, team.size(), team.rank());
    const LinearSizes linear{.tokens = sizes.tokens, .inputs = weight.columns.count, .outputs = weight.rows.count};
    layer.parts_.push_back(std::make_unique<LocalLinear>(team, linear, dtype));
  }
  return layer;
}

void TransformerLayer::forward(const std::vector<Operands>& operands, StreamRef stream) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i]->forward(operands[i].x.view(), operands[i].weight.view(), operands[i].y.view(), stream);
  }
}

void TransformerLayer::backward(const std::vector<Operands>& operands, StreamRef stream) {
  for (std::size_t i = parts_.size(); i-- > 0;) {
    const Operands& own = operands[i];
    parts_[i]->backward(own.dy.view(), own.weight.view(), own.x.view(), own.dx.view(), own.dw.view(), stream);
  }
}

}  // namespace tandem::transformer_layer

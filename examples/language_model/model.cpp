// SPDX-License-Identifier: Apache-2.0
#include "language_model/model.hpp"

#include <algorithm>

#include "tandem/device/trace_range.hpp"

namespace tandem::language_model {
namespace {

std::int64_t own_rows(const Team& team, std::int64_t tokens) {
  return shard_of(tokens, team.size(), team.rank()).count;
}

}  // namespace

Block::Block(Parameters& parameters, const Kernels& kernels, const std::string& name, const ModelOptions& options)
    : kernels_(kernels),
      up_(parameters, name + ".up", {.tokens = options.tokens, .inputs = options.hidden, .outputs = options.width},
          Activation::gelu_tanh),
      down_(parameters, name + ".down", {.tokens = options.tokens, .inputs = options.width, .outputs = options.hidden},
            Activation::gelu_tanh) {
  const auto& device = parameters.team().shared_device();
  const Dims shard{own_rows(parameters.team(), options.tokens), options.hidden};
  const Dims inside{options.tokens, up_.own_outputs()};
  normed_ = Tensor(device, shard, options.dtype);
  dnormed_ = Tensor(device, shard, options.dtype);
  scale_ = Tensor(device, {shard[0]}, f32);
  before_ = Tensor(device, inside, options.dtype);
  after_ = Tensor(device, inside, options.dtype);
  dbefore_ = Tensor(device, inside, options.dtype);
}

void Block::forward(const TensorView& x, std::int64_t tokens, StreamRef stream) {
  const TensorView normed = normed_.rows(x.size(0));
  const TensorView after = after_.rows(tokens);
  kernels_.rms_norm(x, normed, scale_.rows(x.size(0)), stream);
  up_.forward(normed, before_.rows(tokens), after, stream);
  down_.forward(after, x, stream);
}

void Block::backward(const TensorView& dx, std::int64_t tokens, StreamRef stream) {
  const TensorView normed = normed_.rows(dx.size(0));
  const TensorView dnormed = dnormed_.rows(dx.size(0));
  const TensorView dbefore = dbefore_.rows(tokens);
  down_.backward(after_.rows(tokens), before_.rows(tokens), dx, dbefore, stream);
  up_.backward(normed, dbefore, dnormed, stream);
  kernels_.rms_norm_backward(normed, scale_.rows(dx.size(0)), dnormed, dx, stream);
}

Model::Model(const Team& team, const ModelOptions& options)
    : device_(team.device()),
      options_(options),
      kernels_(make_kernels(team.device())),
      parameters_(team, options.dtype),
      embedding_(parameters_.add("embedding", {byte_values, options.embedding}, Split::none, 1)),
      projection_(parameters_, "projection",
                  {.tokens = options.tokens, .inputs = options.context * options.embedding, .outputs = options.hidden}),
      head_(parameters_, "head", {.tokens = options.tokens, .inputs = options.hidden, .outputs = byte_values}) {
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    blocks_.emplace_back(parameters_, *kernels_, "block" + std::to_string(layer), options);
  }
  parameters_.allocate(options.seed);

  const auto& device = team.shared_device();
  const std::int64_t rows = own_rows(team, options.tokens);
  const auto pair = [&](Tensor& value, Tensor& gradient, std::int64_t columns) {
    value = Tensor(device, {rows, columns}, options.dtype);
    gradient = Tensor(device, {rows, columns}, options.dtype);
  };
  pair(embedded_, dembedded_, options.context * options.embedding);
  pair(x_, dx_, options.hidden);
  pair(normed_, dnormed_, options.hidden);
  pair(logits_, dlogits_, byte_values);
  scale_ = Tensor(device, {rows}, f32);
  losses_ = Tensor(device, {rows}, f32);
}

void Model::forward(const TensorView& contexts, std::int64_t tokens, StreamRef stream) {
  const TraceRange range(device_, stream, "forward", TraceKind::other);
  const std::int64_t rows = contexts.size(0);
  kernels_->embed(contexts, embedding_.value, embedded_.rows(rows), stream);
  projection_.forward(embedded_.rows(rows), x_.rows(rows), stream);
  for (Block& block : blocks_) block.forward(x_.rows(rows), tokens, stream);
  kernels_->rms_norm(x_.rows(rows), normed_.rows(rows), scale_.rows(rows), stream);
  head_.forward(normed_.rows(rows), logits_.rows(rows), stream);
}

void Model::backward(const TensorView& contexts, const TensorView& targets, std::int64_t tokens, StreamRef stream) {
  const TraceRange range(device_, stream, "backward", TraceKind::other);
  const std::int64_t rows = contexts.size(0);
  const float weight = 1.0F / static_cast<float>(tokens);
  kernels_->softmax_cross_entropy(logits_.rows(rows), targets, weight, losses_.rows(rows), dlogits_.rows(rows), stream);
  device_.column_sum(stream, {.out = loss().data_as<float>(), .x = losses_.view().data(), .rows = rows, .columns = 1});

  const TensorView dx = dx_.rows(rows);
  head_.backward(normed_.rows(rows), dlogits_.rows(rows), dnormed_.rows(rows), stream);
  device_.fill(stream, dx.data(), std::byte{0}, dx.bytes());
  kernels_->rms_norm_backward(normed_.rows(rows), scale_.rows(rows), dnormed_.rows(rows), dx, stream);
  std::for_each(blocks_.rbegin(), blocks_.rend(), [&](Block& block) { block.backward(dx, tokens, stream); });
  projection_.backward(embedded_.rows(rows), dx, dembedded_.rows(rows), stream);
  kernels_->embed_backward(contexts, dembedded_.rows(rows), embedding_.gradient, stream);
  parameters_.sum_over_ranks(stream);
}

}  // namespace tandem::language_model

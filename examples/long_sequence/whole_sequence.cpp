// SPDX-License-Identifier: Apache-2.0
#include "long_sequence/whole_sequence.hpp"

#include <cmath>
#include <cstddef>
#include <span>

#include "tandem/base/error.hpp"
#include "tandem/base/scalar.hpp"
#include "tandem/collective/all_gather.hpp"

namespace tandem::long_sequence {
namespace {

/// How many roundings of its dtype a result may differ by. Few happen to one of 16 bits: weights are rounded before
/// they are multiplied, and blocks' results before they are merged; right ones differed by up to 2 on the host. In f32
/// the errors of long sums and of exponentials exceed the roundings: right ones differed by up to 28.
double roundings(DType dtype) { return dtype == f32 ? 128 : 8; }

double root_mean_square(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

template <typename T>
std::int64_t count_wrong_as(Device& device, const std::vector<Shard>& ranges, const TensorView& mine,
                            const TensorView& whole) {
  const std::vector<T> found = device.download<T>(mine);
  std::vector<double> wanted;
  wanted.reserve(found.size());
  for (const Shard& range : ranges) {
    for (const T& value : device.download<T>(whole.narrow(0, range.begin, range.count))) {
      wanted.push_back(static_cast<float>(value));
    }
  }
  const double error = roundings(mine.dtype()) * epsilon(mine.dtype());
  const double of_all = root_mean_square(wanted);
  const auto dim = static_cast<std::size_t>(mine.size(3));
  std::int64_t wrong = 0;
  for (std::size_t row = 0; row < wanted.size(); row += dim) {
    const double typical = of_all + root_mean_square(std::span(wanted).subspan(row, dim));
    for (std::size_t i = row; i < row + dim; ++i) {
      const double difference = std::abs(static_cast<float>(found[i]) - wanted[i]);
      const bool right = std::isfinite(typical) && difference <= error * (std::abs(wanted[i]) + typical);
      if (!right) ++wrong;
    }
  }
  return wrong;
}

std::int64_t count_wrong(Device& device, const std::vector<Shard>& ranges, const TensorView& mine,
                         const TensorView& whole) {
  switch (mine.dtype()) {
    case DType::f32: return count_wrong_as<float>(device, ranges, mine, whole);
    case DType::f16: return count_wrong_as<Half>(device, ranges, mine, whole);
    case DType::bf16: return count_wrong_as<BFloat16>(device, ranges, mine, whole);
    default: throw InvalidArgument("attention of f32, f16 or bf16 only");
  }
}

}  // namespace

WholeSequence::WholeSequence(const Sequence& mine, StreamRef stream) : device_(mine.team().shared_device()) {
  const ContextParallelSpec& spec = mine.spec();
  const auto like = [&](const TensorView& other) { return tensor(other.sizes(), spec.dtype); };
  const TensorView q = in_natural_order(mine, mine.q().padded, stream);
  const TensorView k = in_natural_order(mine, mine.k().padded, stream);
  const TensorView v = in_natural_order(mine, mine.v().padded, stream);
  const TensorView grad_out = in_natural_order(mine, mine.grad_out().padded, stream);
  const TensorView lse = tensor({spec.batch, spec.heads, spec.tokens}, f32);
  out_ = like(grad_out);
  dq_ = like(q);
  dk_ = like(k);
  dv_ = like(v);
  const auto attention = mine.team().device().attention({.batch = spec.batch,
                                                         .queries = spec.tokens,
                                                         .keys = spec.tokens,
                                                         .heads = spec.heads,
                                                         .kv_heads = spec.kv_heads,
                                                         .head_dim = spec.head_dim,
                                                         .value_dim = spec.value_dim,
                                                         .dtype = spec.dtype,
                                                         .band = spec.band,
                                                         .scale = spec.scale,
                                                         .gradients = true});
  attention->forward(stream,
                     {.q = q.data(), .k = k.data(), .v = v.data(), .out = out_.data(), .lse = lse.data_as<float>()});
  attention->backward(stream, {.grad_out = grad_out.data(),
                               .q = q.data(),
                               .k = k.data(),
                               .v = v.data(),
                               .out = out_.data(),
                               .lse = lse.data_as<float>(),
                               .dq = dq_.data(),
                               .dk = dk_.data(),
                               .dv = dv_.data()});
  mine.team().synchronize(stream);
}

TensorView WholeSequence::tensor(const Dims& sizes, DType dtype) {
  buffers_.emplace_back(device_, static_cast<std::size_t>(sizes.numel()) * size_of(dtype));
  return buffers_.back().view(sizes, dtype);
}

TensorView WholeSequence::in_natural_order(const Sequence& mine, const TensorView& padded, StreamRef stream) {
  const Team& team = mine.team();
  const ContextParallelSpec& spec = mine.spec();
  const auto sizes_of = [&](std::int64_t tokens) {
    return Dims{tokens, padded.size(1), padded.size(2), padded.size(3)};
  };
  const std::int64_t most = padded.size(0);
  const Buffer memory(team.shared_device(), static_cast<std::size_t>(team.size()) * padded.bytes());
  const TensorView everyones = memory.view(sizes_of(most * team.size()), padded.dtype());
  const TensorView whole = tensor(sizes_of(spec.tokens), padded.dtype());
  AllGather(team, {.count = padded.numel(), .dtype = padded.dtype()})(padded, everyones, stream);
  for (int rank = 0; rank < team.size(); ++rank) {
    std::int64_t from = rank * most;
    for (const Shard& range : tokens_of(spec.split, spec.tokens, team.size(), rank)) {
      const TensorView to = whole.narrow(0, range.begin, range.count);
      const TensorView rows = everyones.narrow(0, from, range.count);
      if (range.count != 0) team.device().copy(stream, {.dst = to.data(), .src = rows.data(), .bytes = to.bytes()});
      from += range.count;
    }
  }
  team.synchronize(stream);  // only then is the gathered tensor freed
  return whole;
}

Wrong WholeSequence::count_wrong(const Sequence& mine) const {
  const ContextParallelSpec& spec = mine.spec();
  const Team& team = mine.team();
  const std::vector<Shard> ranges = tokens_of(spec.split, spec.tokens, team.size(), team.rank());
  const auto wrong = [&](const TensorView& own, const TensorView& whole) {
    return long_sequence::count_wrong(team.device(), ranges, own, whole);
  };
  return {wrong(mine.out(), out_), wrong(mine.dq(), dq_) + wrong(mine.dk(), dk_) + wrong(mine.dv(), dv_)};
}

}  // namespace tandem::long_sequence

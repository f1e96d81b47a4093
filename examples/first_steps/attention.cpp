// SPDX-License-Identifier: Apache-2.0
// Causal attention to a sequence that all ranks share: each has two chunks of its tokens, and fetches the keys and
// values of the others, block by block, while it attends to those it has:
//
//   tandem run -n 4 -- build/release/examples/first_steps/attention
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tandem/attention/context_parallel_attention.hpp"
#include "tandem/base/error.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/team/world.hpp"

namespace {

constexpr std::int64_t tokens = 256, heads = 8, kv_heads = 2, dim = 64;  // of the whole sequence

/// A tensor of this rank's tokens in a device's memory, and its values on the host.
class Tensor {
 public:
  Tensor(const tandem::World& world, const tandem::Dims& sizes, tandem::DType dtype)
      : device_(world.device()),
        buffer_(world.shared_device(), static_cast<std::size_t>(sizes.numel()) * size_of(dtype)),
        view_(buffer_.view(sizes, dtype)) {}

  [[nodiscard]] const tandem::TensorView& view() const { return view_; }
  void upload(const std::vector<float>& values) const {
    view_.dtype() == tandem::f32 ? device_.upload(view_, values)
                                 : device_.upload(view_, std::vector<tandem::BFloat16>(values.begin(), values.end()));
  }
  [[nodiscard]] std::vector<float> download() const {
    if (view_.dtype() == tandem::f32) return device_.download<float>(view_);
    const auto values = device_.download<tandem::BFloat16>(view_);
    return {values.begin(), values.end()};
  }

 private:
  tandem::Device& device_;
  tandem::Buffer buffer_;
  tandem::TensorView view_;
};

}  // namespace

int main() try {
  const tandem::World world = tandem::init();
  const tandem::Team& team = world.team();
  if (const std::string why = world.device().why_no_attention(); !why.empty()) {
    std::printf("needs attention, which %s has not: %s\n", world.device().describe().c_str(), why.c_str());
    return 0;
  }
  const auto dtype = world.device().id().type == tandem::DeviceType::host ? tandem::f32 : tandem::bf16;
  const tandem::Stream stream(world.device());

  // A plan: all ranks make it. A band whose right bound is 0 is causal.
  const tandem::ContextParallelSpec spec{
      .tokens = tokens, .heads = heads, .kv_heads = kv_heads, .head_dim = dim, .dtype = dtype, .band = {.right = 0}};
  tandem::ContextParallelAttention attention(team, spec);
  if (team.rank() == 0) std::puts(attention.describe().c_str());

  // Which tokens of the sequence this rank has: two ranges, since rank 0's first tokens have little to attend to.
  std::vector<float> mine;
  for (const tandem::Shard& range : tokens_of(spec.split, tokens, team.size(), team.rank())) {
    for (std::int64_t i = 0; i < range.count; ++i) mine.push_back(static_cast<float>(range.begin + i));
  }
  const auto count = static_cast<std::int64_t>(mine.size());

  const tandem::Dims queries{count, 1, heads, dim}, keys{count, 1, kv_heads, dim};
  const Tensor q(world, queries, dtype), out(world, queries, dtype), dout(world, queries, dtype);
  const Tensor dq(world, queries, dtype), k(world, keys, dtype), v(world, keys, dtype);
  const Tensor dk(world, keys, dtype), dv(world, keys, dtype), lse(world, {1, heads, count}, tandem::f32);

  // Queries of 0 attend to all that they see alike: the result of token t is the mean of the values of tokens 0 to t.
  q.upload(std::vector<float>(static_cast<std::size_t>(queries.numel()), 0));
  k.upload(std::vector<float>(static_cast<std::size_t>(keys.numel()), 1));
  dout.upload(std::vector<float>(static_cast<std::size_t>(queries.numel()), 1));
  std::vector<float> positions;
  for (const float token : mine) positions.insert(positions.end(), static_cast<std::size_t>(kv_heads * dim), token);
  v.upload(positions);

  attention.forward(q.view(), k.view(), v.view(), out.view(), lse.view(), stream);  // asynchronous
  attention.backward(dout.view(), q.view(), k.view(), v.view(), out.view(), lse.view(), dq.view(), dk.view(), dv.view(),
                     stream);
  team.synchronize(stream);  // waits; throws where results would not be valid

  // Token t of the keys is seen by tokens s ≥ t, with a weight of 1 / (s + 1), in each of the heads that share it.
  constexpr double sharing = static_cast<double>(heads) / static_cast<double>(kv_heads);
  std::vector<double> seen(tokens + 1);
  for (std::int64_t t = tokens - 1; t >= 0; --t) {
    const auto at = static_cast<std::size_t>(t);
    seen[at] = seen[at + 1] + sharing / static_cast<double>(t + 1);
  }
  int wrong = 0;
  const auto compare = [&](const Tensor& tensor, std::int64_t row, const auto& expected) {
    const std::vector<float> values = tensor.download();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double right = expected(static_cast<std::size_t>(mine[i / static_cast<std::size_t>(row)]));
      if (!(std::abs(static_cast<double>(values[i]) - right) <= 0.02 * right + 1e-6)) ++wrong;
    }
  };
  compare(out, heads * dim, [](std::size_t token) { return static_cast<double>(token) / 2; });
  compare(dv, kv_heads * dim, [&](std::size_t token) { return seen[token]; });
  std::printf("rank %d: %lld tokens, %d elements are wrong\n", team.rank(), static_cast<long long>(count), wrong);
  return wrong == 0 ? 0 : 1;
} catch (const tandem::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// What it costs on a GPU to attend block by block: the attention of one of four ranks to a causal sequence, forward and
// backward, as ContextParallelAttention cuts it (tokens of its own, two ranks behind it, one before it), with and
// without the merges; with the two ranks behind it as one block; and one local attention of as many pairs of queries
// and keys. With --benchmark_enable_random_interleaving=true all see the same clocks.
#include <algorithm>
#include <array>
#include <benchmark/benchmark.h>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tandem/base/scalar.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/event.hpp"

namespace {

using namespace tandem;

constexpr std::int64_t tokens = 8192, heads = 64, dim = 128;  // of a rank

enum class Way : std::uint8_t { whole, blocks, merged, joined };

/// A rank's tensors, and what it does with them.
class Rank {
 public:
  Rank(std::shared_ptr<Device> device, std::int64_t kv_heads)
      : device_(std::move(device)),
        kv_heads_(kv_heads),
        own_(attention(tokens, tokens, {.right = 0})),
        behind_(attention(tokens / 2, tokens, {})),
        both_behind_(attention(tokens / 2, 2 * tokens, {})),
        before_(attention(tokens, tokens / 2, {})),
        whole_(attention(tokens, 2 * tokens, {})),
        q_(random_tensor(tokens * heads)),
        k_(random_tensor(2 * tokens * kv_heads)),
        v_(random_tensor(2 * tokens * kv_heads)),
        grad_out_(random_tensor(tokens * heads)),
        out_(random_tensor(tokens * heads)),
        dq_(random_tensor(tokens * heads)),
        part_(random_tensor(tokens * heads)),
        dk_(random_tensor(2 * tokens * kv_heads)),
        dv_(random_tensor(2 * tokens * kv_heads)),
        sum_(device_, static_cast<std::size_t>(tokens * heads * dim) * sizeof(float)),
        lse_(device_, static_cast<std::size_t>(tokens * heads) * sizeof(float)),
        lse_part_(device_, static_cast<std::size_t>(tokens * heads) * sizeof(float)) {}

  /// Queues one direction.
  void run(StreamRef stream, bool backward, Way way) const {
    if (way == Way::whole) return attend(stream, backward, *whole_, false, false);
    attend(stream, backward, *own_, false, true);
    const bool merges = way != Way::blocks;
    const int ranks_behind = way == Way::joined ? 1 : 2;
    for (int i = 0; i < ranks_behind; ++i) {
      attend(stream, backward, way == Way::joined ? *both_behind_ : *behind_, true, false);
      if (merges) merge(stream, backward, true, i == 0, false);
    }
    attend(stream, backward, *before_, false, false);
    if (merges) merge(stream, backward, false, false, true);
  }

  [[nodiscard]] std::string describe() const { return own_->describe(); }

 private:
  [[nodiscard]] std::unique_ptr<Attention> attention(std::int64_t queries, std::int64_t keys,
                                                     const AttentionBand& band) const {
    return device_->attention({.queries = queries,
                               .keys = keys,
                               .heads = heads,
                               .kv_heads = kv_heads_,
                               .head_dim = dim,
                               .dtype = bf16,
                               .band = band,
                               .gradients = true});
  }
  /// Normally distributed numbers, which repeat after the first million: power, and so time, depends on the data.
  [[nodiscard]] Buffer random_tensor(std::int64_t rows) const {
    static const std::vector<BFloat16> numbers = [] {
      std::minstd_rand random(1);
      std::normal_distribution<float> normal;
      std::vector<BFloat16> made(std::size_t{1} << 20);
      for (BFloat16& number : made) number = BFloat16(normal(random));
      return made;
    }();
    Buffer tensor(device_, static_cast<std::size_t>(rows * dim) * sizeof(BFloat16));
    const std::size_t bytes = numbers.size() * sizeof(BFloat16);
    for (std::size_t at = 0; at < tensor.bytes(); at += bytes) {
      device_->upload(tensor.data_as<std::byte>() + at, numbers.data(), std::min(bytes, tensor.bytes() - at));
    }
    return tensor;
  }
  /// `second`: only the second half of the queries. Results of the first block are what others are merged into.
  void attend(StreamRef stream, bool backward, Attention& attention, bool second, bool first) const {
    const std::size_t skipped = second ? static_cast<std::size_t>(tokens / 2 * heads * dim) * sizeof(BFloat16) : 0;
    const auto at = [skipped](const Buffer& tensor) { return tensor.data_as<std::byte>() + skipped; };
    if (!backward) {
      return attention.forward(stream, {.q = at(q_),
                                        .k = k_.data(),
                                        .v = v_.data(),
                                        .out = first ? out_.data() : part_.data(),
                                        .lse = (first ? lse_ : lse_part_).data_as<float>()});
    }
    attention.backward(stream, {.grad_out = at(grad_out_),
                                .q = at(q_),
                                .k = k_.data(),
                                .v = v_.data(),
                                .out = at(out_),
                                .lse = lse_.data_as<float>(),
                                .dq = first ? dq_.data() : part_.data(),
                                .dk = dk_.data(),
                                .dv = dv_.data()});
  }
  void merge(StreamRef stream, bool backward, bool second, bool first, bool last) const {
    const void* const result = backward ? dq_.data() : out_.data();
    device_->merge(stream, {.before = first ? result : sum_.data(),
                            .after = last ? const_cast<void*>(result) : sum_.data(),
                            .part = part_.data(),
                            .lse = backward ? nullptr : lse_.data_as<float>(),
                            .lse_part = backward ? nullptr : lse_part_.data_as<float>(),
                            .rows = {.count = second ? tokens / 2 : tokens,
                                     .first = second ? tokens / 2 : 0,
                                     .tokens = tokens,
                                     .part_tokens = second ? tokens / 2 : tokens},
                            .heads = heads,
                            .dim = dim,
                            .dtype = bf16,
                            .before_dtype = first ? bf16 : f32,
                            .after_dtype = last ? bf16 : f32});
  }

  std::shared_ptr<Device> device_;
  std::int64_t kv_heads_;
  std::unique_ptr<Attention> own_, behind_, both_behind_, before_, whole_;
  Buffer q_, k_, v_, grad_out_, out_, dq_, part_, dk_, dv_, sum_, lse_, lse_part_;
};

void attention_of_a_rank(benchmark::State& state, std::int64_t kv_heads, bool backward, Way way) {
  if (device_count(DeviceType::cuda) == 0) return state.SkipWithError(why_no_device(DeviceType::cuda).c_str());
  static const auto device = open_device({DeviceType::cuda, 0});
  if (const std::string why = device->why_no_attention(); !why.empty()) return state.SkipWithError(why.c_str());
  static std::map<std::int64_t, Rank> ranks;  // several benchmarks share one
  const Rank& rank = ranks.try_emplace(kv_heads, device, kv_heads).first->second;
  const Stream stream(*device);
  Event begin(*device, Event::Timing::on);
  Event end(*device, Event::Timing::on);
  rank.run(stream, false, Way::merged);  // results for the backward pass
  for (auto _ : state) {
    begin.record(stream);
    rank.run(stream, backward, way);
    end.record(stream);
    stream.synchronize();
    state.SetIterationTime(end.elapsed_since(begin) * 1e-3);
  }
  const double pairs = static_cast<double>(tokens) * static_cast<double>(2 * tokens);
  const double flops = 4 * pairs * static_cast<double>(heads * dim) * (backward ? 2.5 : 1);
  state.counters["TFLOP/s"] = benchmark::Counter(flops * 1e-12, benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(rank.describe());
}

void register_all() {
  constexpr std::array ways{"one kernel", "blocks alone", "blocks merged", "two blocks as one, merged"};
  for (const std::int64_t kv_heads : {8, 64}) {
    for (const bool backward : {false, true}) {
      for (std::size_t way = 0; way < ways.size(); ++way) {
        const std::string name =
            std::string(backward ? "backward" : "forward") + "/kv_heads:" + std::to_string(kv_heads) + "/" + ways[way];
        benchmark::RegisterBenchmark(
            name.c_str(),
            [=](benchmark::State& state) { attention_of_a_rank(state, kv_heads, backward, static_cast<Way>(way)); })
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

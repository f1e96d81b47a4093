// SPDX-License-Identifier: Apache-2.0
// The time of a transformer layer's GEMMs on a GPU, with the shapes that one of four ranks has, in bf16, with each
// algorithm that cuBLASLt offers (the first is the one that runs untuned): alone after a pause, and many in a row,
// which the GPU's power limit may slow down.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/event.hpp"

namespace {

using namespace tandem;

/// A tensor of normally distributed numbers, which repeat after the first few million: a GEMM's power, and so its time,
/// depends on its data.
Buffer random_tensor(const std::shared_ptr<Device>& device, std::size_t elements) {
  constexpr std::size_t fresh = std::size_t{4} << 20;
  static const std::vector<std::uint16_t> numbers = [] {
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> made(fresh);
    for (std::uint16_t& each : made)
      each = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(engine)) >> 16);
    return made;
  }();
  Buffer tensor(device, elements * sizeof(std::uint16_t));
  for (std::size_t at = 0; at < elements; at += fresh) {
    device->upload(tensor.data_as<std::uint16_t>() + at, numbers.data(),
                   std::min(fresh, elements - at) * sizeof(std::uint16_t));
  }
  return tensor;
}

void product(benchmark::State& state, std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a,
             bool transpose_b) {
  if (device_count(DeviceType::cuda) == 0) {
    state.SkipWithError(why_no_device(DeviceType::cuda).c_str());
    return;
  }
  const auto device = open_device({DeviceType::cuda, 0});
  const GemmSpec spec{
      .m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b, .dtype = bf16, .out_dtype = bf16};
  const std::vector<std::string> names = device->gemm(spec)->algorithms(m);
  const auto rank = static_cast<std::size_t>(state.range(0));
  if (rank >= names.size()) {
    state.SkipWithError("cuBLASLt offers fewer");
    return;
  }
  const GemmAlgorithm algorithm{m, names[rank]};
  const std::unique_ptr<Gemm> gemm = device->gemm(spec, std::span(&algorithm, 1));
  const Buffer a = random_tensor(device, static_cast<std::size_t>(m * k));
  const Buffer b = random_tensor(device, static_cast<std::size_t>(n * k));
  const Buffer d(device, static_cast<std::size_t>(m * n) * sizeof(std::uint16_t));
  // Filled before the timed runs, so that the host (slow after a sleep) is ahead, and no operands are cached.
  const Buffer other(device, std::size_t{1} << 30);
  const Stream stream(*device);
  Event begin(*device, Event::Timing::on);
  Event end(*device, Event::Timing::on);
  const std::chrono::milliseconds rest(state.range(1));
  const int runs = rest.count() > 0 ? 1 : 20;
  for (auto _ : state) {
    std::this_thread::sleep_for(rest);
    device->fill(stream, other.data(), std::byte{0}, other.bytes());
    begin.record(stream);
    for (int i = 0; i < runs; ++i) gemm->run(stream, {.a = a.data(), .b = b.data(), .d = d.data()});
    end.record(stream);
    stream.synchronize();
    state.SetIterationTime(end.elapsed_since(begin) * 1e-3 / runs);
  }
  state.SetLabel(algorithm.name);
}
void algorithms(benchmark::internal::Benchmark* each) {
  each->ArgNames({"rank", "rest_ms"})
      ->ArgsProduct({benchmark::CreateDenseRange(0, 7, 1), {15, 0}})
      ->UseManualTime()
      ->Iterations(5)
      ->Unit(benchmark::kMicrosecond);
}
// GEMMs of the layers: y = x·Wᵀ, dx = dy·W, dW = dyᵀ·x.
BENCHMARK_CAPTURE(product, up_forward, 8192, 14336, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, up_gradient_of_x, 8192, 8192, 14336, false, false)->Apply(algorithms);
BENCHMARK_CAPTURE(product, up_gradient_of_weight, 14336, 8192, 8192, true, false)->Apply(algorithms);
BENCHMARK_CAPTURE(product, down_forward, 8192, 8192, 7168, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, down_gradient_of_x, 8192, 7168, 8192, false, false)->Apply(algorithms);
BENCHMARK_CAPTURE(product, down_gradient_of_weight, 8192, 7168, 8192, true, false)->Apply(algorithms);
BENCHMARK_CAPTURE(product, qkv_forward, 8192, 2560, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, qkv_gradient_of_x, 8192, 8192, 2560, false, false)->Apply(algorithms);
BENCHMARK_CAPTURE(product, out_forward, 8192, 8192, 2048, false, true)->Apply(algorithms);
// The parts that pipelines split them into: a shard of the tokens, and the other three.
BENCHMARK_CAPTURE(product, qkv_shard, 2048, 2560, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, qkv_three_shards, 6144, 2560, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, up_shard, 2048, 14336, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, up_three_shards, 6144, 14336, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, down_shard, 2048, 8192, 7168, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, out_shard, 2048, 8192, 2048, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, out_two_shards, 4096, 8192, 2048, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, out_three_shards, 6144, 8192, 2048, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, qkv_gradient_of_x_shard, 2048, 8192, 2560, false, false)->Apply(algorithms);
// Other shapes of the comparison with peers.
BENCHMARK_CAPTURE(product, cube, 8192, 8192, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, wide, 4096, 12288, 12288, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, wide_shard, 1024, 12288, 12288, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, few_tokens_up, 1024, 7168, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, few_tokens_up_shard, 256, 7168, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, few_tokens_up_two_shards, 512, 7168, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, few_tokens_up_three_shards, 768, 7168, 8192, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, few_tokens_down_shard, 256, 8192, 7168, false, true)->Apply(algorithms);
BENCHMARK_CAPTURE(product, few_tokens_down, 1024, 8192, 7168, false, true)->Apply(algorithms);

}  // namespace

BENCHMARK_MAIN();

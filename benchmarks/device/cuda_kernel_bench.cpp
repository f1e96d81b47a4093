// SPDX-License-Identifier: Apache-2.0
// The rates of a GPU's reductions and elementwise kernels in its own memory, in bytes read and written per second, in a
// CUDA graph of 20 calls. Each call works on other memory than the previous one, in total more than a cache holds.
#include <array>
#include <benchmark/benchmark.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/graph.hpp"

namespace {

using namespace tandem;

constexpr int calls = 20;
constexpr std::size_t more_than_a_cache = std::size_t{256} << 20;

/// Cycles through tensors of this size, which together exceed a cache.
class Tensors {
 public:
  Tensors(const std::shared_ptr<Device>& device, std::size_t bytes, std::size_t at_once)
      : bytes_(bytes), count_(at_once * (1 + more_than_a_cache / (bytes * at_once))), memory_(device, bytes_ * count_) {
    const Stream stream(*device);
    device->fill(stream, memory_.data(), std::byte{0x3c}, memory_.bytes());
    stream.synchronize();
  }
  [[nodiscard]] std::byte* next() { return memory_.data_as<std::byte>() + bytes_ * (next_++ % count_); }

 private:
  std::size_t bytes_;
  std::size_t count_;
  Buffer memory_;
  std::size_t next_ = 0;
};

/// Times launches of a graph with `calls` calls of `body`. `bytes`: read and written by one call, for the rate.
template <typename Body> void time(benchmark::State& state, Device& device, std::size_t bytes, const Body& body) {
  const Stream stream(device);
  const Graph graph(device, stream, [&] {
    for (int i = 0; i < calls; ++i) body(stream);
  });
  for (auto _ : state) {
    graph.launch(stream);
    stream.synchronize();
  }
  const auto done = static_cast<double>(state.iterations() * calls);
  state.SetBytesProcessed(state.iterations() * calls * static_cast<std::int64_t>(bytes));
  state.counters["us"] = benchmark::Counter(done * 1e-6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

bool has_gpu(benchmark::State& state) {
  if (device_count(DeviceType::cuda) != 0) return true;
  state.SkipWithError(why_no_device(DeviceType::cuda).c_str());
  return false;
}

void reduce(benchmark::State& state) {
  if (!has_gpu(state)) return;
  const auto device = open_device({DeviceType::cuda, 0});
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto source_count = static_cast<std::size_t>(state.range(1));
  const auto dtype = static_cast<DType>(state.range(2));
  Tensors tensors(device, bytes, source_count + 1);
  time(state, *device, bytes * (source_count + 1), [&](StreamRef stream) {
    std::vector<const void*> sources(source_count);
    for (const void*& source : sources) source = tensors.next();
    const std::array<void*, 1> destinations{tensors.next()};
    device->reduce(stream, {.sources = sources,
                            .destinations = destinations,
                            .count = static_cast<std::int64_t>(bytes / size_of(dtype)),
                            .dtype = dtype,
                            .out_dtype = dtype});
  });
  state.SetLabel(std::string(name(dtype)));
}
BENCHMARK(reduce)
    ->ArgsProduct({{256 << 10, 1 << 20, 4 << 20, 8 << 20, 32 << 20},
                   {2, 4, 8},
                   {static_cast<int>(DType::bf16), static_cast<int>(DType::f32), static_cast<int>(DType::u8)}})
    ->UseRealTime();

void map(benchmark::State& state, MapKind kind, DType dtype, DType out_dtype) {
  if (!has_gpu(state)) return;
  const auto device = open_device({DeviceType::cuda, 0});
  const std::int64_t count = state.range(0);
  const auto wide = static_cast<std::size_t>(count) * 4;
  const std::size_t operands = kind == MapKind::add || kind == MapKind::activate_grad ? 2 : 1;
  Tensors tensors(device, wide, operands + 1);
  const std::size_t bytes = static_cast<std::size_t>(count) * (operands * size_of(dtype) + size_of(out_dtype));
  time(state, *device, bytes, [&](StreamRef stream) {
    device->map(stream, {.kind = kind,
                         .out = tensors.next(),
                         .x = tensors.next(),
                         .y = operands == 2 ? tensors.next() : nullptr,
                         .count = count,
                         .dtype = dtype,
                         .out_dtype = out_dtype,
                         .activation = Activation::gelu_tanh});
  });
}
void counts(benchmark::internal::Benchmark* each) { each->Arg(1 << 18)->Arg(1 << 21)->Arg(1 << 24)->UseRealTime(); }
BENCHMARK_CAPTURE(map, cast_f32_bf16, MapKind::cast, f32, bf16)->Apply(counts);
BENCHMARK_CAPTURE(map, cast_bf16_f32, MapKind::cast, bf16, f32)->Apply(counts);
BENCHMARK_CAPTURE(map, add_bf16, MapKind::add, bf16, bf16)->Apply(counts);
BENCHMARK_CAPTURE(map, add_f32, MapKind::add, f32, f32)->Apply(counts);
BENCHMARK_CAPTURE(map, gelu_bf16, MapKind::activate, bf16, bf16)->Apply(counts);
BENCHMARK_CAPTURE(map, gelu_gradient_bf16, MapKind::activate_grad, bf16, bf16)->Apply(counts);

}  // namespace

BENCHMARK_MAIN();

// SPDX-License-Identifier: Apache-2.0
// The rates of the host's kernels: copies and reductions in bytes per second, elementwise work in elements per second,
// GEMMs in FLOP/s.
#include <array>
#include <benchmark/benchmark.h>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"

namespace {

using namespace tandem;

Buffer ones(const std::shared_ptr<Device>& device, std::size_t bytes) {
  Buffer buffer(device, bytes);
  std::memset(buffer.data(), 0x3c, bytes);  // about 1 in f16, 0.01 in bf16 and f32
  return buffer;
}

void copy(benchmark::State& state) {
  const auto device = open_device({});
  const Stream stream(*device);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer source = ones(device, bytes);
  const Buffer target = ones(device, bytes);
  for (auto _ : state) {
    device->copy(stream, {.dst = target.data(), .src = source.data(), .bytes = bytes});
    stream.synchronize();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy)->Arg(4 << 10)->Arg(64 << 10)->Arg(1 << 20)->Arg(16 << 20)->Arg(128 << 20)->UseRealTime();

void reduce(benchmark::State& state) {
  const auto device = open_device({});
  const Stream stream(*device);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto source_count = static_cast<std::size_t>(state.range(1));
  const auto dtype = static_cast<DType>(state.range(2));
  std::vector<Buffer> memory;
  std::vector<const void*> sources;
  for (std::size_t i = 0; i < source_count; ++i) {
    memory.push_back(ones(device, bytes));
    sources.push_back(memory.back().data());
  }
  const Buffer result = ones(device, bytes);
  const std::array<void*, 1> destinations{result.data()};
  for (auto _ : state) {
    device->reduce(stream, {.sources = sources,
                            .destinations = destinations,
                            .count = static_cast<std::int64_t>(bytes / size_of(dtype)),
                            .dtype = dtype,
                            .out_dtype = dtype});
    stream.synchronize();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * (state.range(1) + 1));
  state.SetLabel(std::string(name(dtype)));
}
BENCHMARK(reduce)
    ->ArgsProduct({{4 << 10, 64 << 10, 1 << 20, 64 << 20},
                   {2, 8},
                   {static_cast<int>(DType::f32), static_cast<int>(DType::bf16), static_cast<int>(DType::f16)}})
    ->UseRealTime();

void activate(benchmark::State& state) {
  const auto device = open_device({});
  const Stream stream(*device);
  constexpr std::int64_t count = 1 << 18;
  const auto dtype = static_cast<DType>(state.range(2));
  std::vector<float> values(count);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) * 0.01F - 5.0F;
  const Buffer wide(device, count * 4);
  const Buffer x(device, count * 4);
  const Buffer y = ones(device, count * 4);
  const Buffer out(device, count * 4);
  device->upload(wide.data(), values.data(), count * 4);
  device->map(stream, {.out = x.data(), .x = wide.data(), .count = count, .out_dtype = dtype});
  stream.synchronize();
  const auto activation = static_cast<Activation>(state.range(0));
  for (auto _ : state) {
    device->map(stream, {.kind = state.range(1) != 0 ? MapKind::activate_grad : MapKind::activate,
                         .out = out.data(),
                         .x = x.data(),
                         .y = y.data(),
                         .count = count,
                         .dtype = dtype,
                         .out_dtype = dtype,
                         .activation = activation});
    stream.synchronize();
  }
  state.SetItemsProcessed(state.iterations() * count);
  state.SetLabel(std::string(name(activation)) + (state.range(1) != 0 ? " gradient " : " ") + std::string(name(dtype)));
}
BENCHMARK(activate)
    ->ArgsProduct({{1, 2}, {0, 1}, {static_cast<int>(DType::f32), static_cast<int>(DType::bf16)}})
    ->UseRealTime();

void gemm(benchmark::State& state, GemmChoice choice, DType dtype) {
  const auto device = open_device({}, {.gemm = choice});
  const Stream stream(*device);
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * size_of(dtype); };
  const Buffer a = ones(device, bytes(m * k));
  const Buffer b = ones(device, bytes(n * k));
  const Buffer d = ones(device, bytes(m * n));
  const auto product = device->gemm({.m = m, .n = n, .k = k, .transpose_b = true, .dtype = dtype, .out_dtype = dtype});
  for (auto _ : state) {
    product->run(stream, {.a = a.data(), .b = b.data(), .d = d.data()});
    stream.synchronize();
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(product->describe());
}
void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({64, 1024, 1024})->Args({512, 512, 512})->Args({512, 2048, 512})->Args({1024, 1024, 1024});
  benchmark->UseRealTime();
}
BENCHMARK_CAPTURE(gemm, auto_f32, GemmChoice::automatic, f32)->Apply(shapes);
BENCHMARK_CAPTURE(gemm, auto_bf16, GemmChoice::automatic, bf16)->Apply(shapes);
BENCHMARK_CAPTURE(gemm, auto_f16, GemmChoice::automatic, f16)->Apply(shapes);
BENCHMARK_CAPTURE(gemm, builtin_f32, GemmChoice::builtin, f32)->Apply(shapes);
BENCHMARK_CAPTURE(gemm, builtin_bf16, GemmChoice::builtin, bf16)->Apply(shapes);
BENCHMARK_CAPTURE(gemm, f64, GemmChoice::automatic, f64)->Apply(shapes);

}  // namespace

BENCHMARK_MAIN();

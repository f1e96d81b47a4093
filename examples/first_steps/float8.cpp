// SPDX-License-Identifier: Apache-2.0
// A column-parallel layer whose operands have 8 bits: half the bytes to gather, and on a GPU up to 1.8 times the speed
// of the GEMM. Each token and each output has a scale, as inference engines quantize them:
//
//   tandem run -n 3 -- build/release/examples/first_steps/float8
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/base/scalar.hpp"
#include "tandem/collective/shard.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/team/world.hpp"

namespace {

constexpr std::int64_t m = 96, n = 64, k = 256;  // tokens of all ranks, outputs of each rank, inputs
constexpr float largest = 448;                   // of f8e4m3

/// Any values that every rank can compute: `row` of matrix `which`.
std::vector<float> row_of(std::int64_t which, std::int64_t row) {
  std::minstd_rand random(static_cast<std::uint_fast32_t>(1000 * which + row + 1));
  std::normal_distribution<float> value(0, static_cast<float>(row + 1));  // rows of different sizes
  std::vector<float> values(k);
  for (float& each : values) each = value(random);
  return values;
}

/// Rows of 8-bit numbers and what each row is to be multiplied by, in the device's memory.
struct Quantized {
  tandem::Buffer values;
  tandem::Buffer scales;

  Quantized(const tandem::World& world, std::int64_t which, tandem::Shard rows)
      : values(world.shared_device(), static_cast<std::size_t>(rows.count * k)),
        scales(world.shared_device(), static_cast<std::size_t>(rows.count) * sizeof(float)) {
    std::vector<tandem::Float8E4M3> narrow;
    std::vector<float> factors;
    for (std::int64_t row = rows.begin; row < rows.begin + rows.count; ++row) {
      const std::vector<float> wide = row_of(which, row);
      const float scale = std::abs(*std::ranges::max_element(wide, {}, [](float x) { return std::abs(x); })) / largest;
      for (const float value : wide) narrow.emplace_back(value / scale);
      factors.push_back(scale);
    }
    world.device().upload(values.view({rows.count, k}, tandem::f8e4m3), narrow);
    world.device().upload(scales.view({rows.count}, tandem::f32), factors);
  }
};

}  // namespace

int main() try {
  const tandem::World world = tandem::init();
  const tandem::Team& team = world.team();
  const tandem::Shard tokens = tandem::shard_of(m, team.size(), team.rank());  // this rank's
  const tandem::Shard outputs{team.rank() * n, n};
  const Quantized x(world, 0, tokens);
  const Quantized weight(world, 1, outputs);
  const tandem::Buffer y(world.shared_device(), m * n * sizeof(tandem::BFloat16));
  const tandem::TensorView result = y.view({m, n}, tandem::bf16);  // of 8-bit operands, bf16 unless out_dtype says so

  const tandem::Stream stream(world.device());
  tandem::AllGatherLinear layer(team,
                                {.m = m, .n = n, .k = k, .dtype = tandem::f8e4m3, .scaling = tandem::Scaling::per_row});
  layer({.x = x.values.view({tokens.count, k}, tandem::f8e4m3),
         .weight = weight.values.view({n, k}, tandem::f8e4m3),
         .x_scale = x.scales.view({tokens.count}, tandem::f32),
         .weight_scale = weight.scales.view({n}, tandem::f32),
         .y = result},
        stream);
  team.synchronize(stream);
  if (team.rank() == 0) std::puts(layer.describe().c_str());

  // Compared with the numbers before they were quantized.
  const auto got = world.device().download<tandem::BFloat16>(result);
  double error = 0;
  double size = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    const std::vector<float> token = row_of(0, i);
    for (std::int64_t j = 0; j < n; ++j) {
      const std::vector<float> output = row_of(1, outputs.begin + j);
      double sum = 0;
      for (std::size_t t = 0; t < token.size(); ++t)
        sum += static_cast<double>(token[t]) * static_cast<double>(output[t]);
      const auto found = static_cast<double>(static_cast<float>(got[static_cast<std::size_t>(i * n + j)]));
      error += (found - sum) * (found - sum);
      size += sum * sum;
    }
  }
  const double relative = std::sqrt(error / size);
  if (team.rank() == 0) std::printf("relative error of 8 bits: %.1f percent\n", 100 * relative);
  return relative < 0.1 ? 0 : 1;
} catch (const tandem::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Two linear layers with GELU in between, tensor- and sequence-parallel: each rank has a share of the tokens and of
// both weights. The first layer overlaps its GEMM with an all-gather of the tokens, the second with a reduce-scatter:
//
//   tandem run -n 3 -- build/release/examples/first_steps/linear
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/team/world.hpp"

namespace {

float element(int matrix, std::int64_t i, std::int64_t j) {
  return std::sin(static_cast<float>(matrix + 3 * i + 7 * j));
}

/// A matrix in device memory. Plans take any memory; only what peers access directly must be symmetric.
struct Matrix {
  Matrix(const tandem::World& world, std::int64_t rows, std::int64_t columns)
      : memory(world.shared_device(), static_cast<std::size_t>(rows * columns) * sizeof(float)),
        view(memory.view({rows, columns}, tandem::f32)) {}
  tandem::Buffer memory;
  tandem::TensorView view;
};

/// These rows and columns of a matrix, on the device.
Matrix part(const tandem::World& world, int matrix, tandem::Shard rows, tandem::Shard columns) {
  std::vector<float> values;
  for (std::int64_t at = 0; at < rows.count * columns.count; ++at) {
    values.push_back(element(matrix, rows.begin + at / columns.count, columns.begin + at % columns.count));
  }
  Matrix filled(world, rows.count, columns.count);
  world.device().upload(filled.view, values);
  return filled;
}

}  // namespace

int main() try {
  constexpr std::int64_t tokens = 50, hidden = 20, inner = 44;  // over all ranks; need not be multiples of their number
  const tandem::World world = tandem::init();
  const tandem::Team& team = world.team();
  const tandem::Shard mine = tandem::shard_of(tokens, team.size(), team.rank());
  const tandem::Shard share = tandem::shard_of(inner, team.size(), team.rank());

  const Matrix x = part(world, 1, mine, {0, hidden});
  const Matrix w1 = part(world, 2, share, {0, hidden});  // [outputs, inputs], as PyTorch stores them
  const Matrix w2 = part(world, 3, {0, hidden}, share);
  const Matrix h(world, tokens, share.count);
  const Matrix y(world, mine.count, hidden);

  // Plans are created once, by all ranks together; running them only queues work, and allocates nothing.
  const auto gelu = tandem::Activation::gelu_erf;
  tandem::AllGatherLinear up(team, {.m = tokens, .n = share.count, .k = hidden, .activation = gelu});
  tandem::LinearReduceScatter down(team, {.m = tokens, .n = hidden, .k = share.count});
  const tandem::Stream stream(world.device());
  up(x.view, w1.view, h.view, stream);
  down(h.view, w2.view, y.view, stream);
  team.synchronize(stream);  // y is complete, or this throws the error
  if (world.rank() == 0) std::printf("%s\n%s\n", up.describe().c_str(), down.describe().c_str());

  const std::vector<float> result = world.device().download<float>(y.view);
  double worst = 0;
  for (std::int64_t i = 0; i < mine.count; ++i) {  // the first element of each token
    double expected = 0;
    for (std::int64_t o = 0; o < inner; ++o) {
      double z = 0;
      for (std::int64_t j = 0; j < hidden; ++j) z += element(1, mine.begin + i, j) * element(2, o, j);
      expected += z * (1 + std::erf(z / std::sqrt(2.0))) / 2 * element(3, 0, o);
    }
    worst = std::fmax(worst, std::fabs(expected - result[static_cast<std::size_t>(i * hidden)]));
  }
  std::printf("rank %d: largest error %.1e\n", world.rank(), worst);
  return worst < 1e-4 ? 0 : 1;
} catch (const tandem::Error& error) {  // its text says what was given, what is allowed, and on which rank
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Fully sharded data parallelism: each rank keeps a shard of every layer's weight, and trains on tokens of its own. The
// next layer's weight is gathered, and the last one's gradient is summed, while a layer is computed:
//
//   tandem run -n 3 -- build/release/examples/first_steps/sharded
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/sharded/sharded_parameters.hpp"
#include "tandem/team/world.hpp"

namespace {

constexpr int layers = 4;
constexpr std::int64_t tokens = 96, width = 64;  // of each rank; all layers are square
constexpr float rate = 0.2F;

/// Any values that every rank can compute.
std::vector<float> random_values(unsigned seed, std::int64_t count, float deviation) {
  std::minstd_rand random(seed);
  std::normal_distribution<float> value(0, deviation);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& each : values) each = value(random);
  return values;
}

/// [tokens, width] in the device's memory.
class Activations {
 public:
  explicit Activations(const tandem::World& world)
      : buffer_(world.shared_device(), static_cast<std::size_t>(tokens * width) * sizeof(float)) {}
  [[nodiscard]] tandem::TensorView view() const { return buffer_.view({tokens, width}, tandem::f32); }
  [[nodiscard]] void* data() const { return buffer_.data(); }

 private:
  tandem::Buffer buffer_;
};

}  // namespace

int main() try {
  const tandem::World world = tandem::init();
  const tandem::Team& team = world.team();
  tandem::Device& device = world.device();
  const tandem::Stream stream(device);

  tandem::ShardedSpec spec{.dtype = tandem::f32};
  for (int layer = 0; layer < layers; ++layer) spec.groups.push_back({"layer", {{"weight", {width, width}}}});
  tandem::ShardedParameters parameters(team, spec);
  if (team.rank() == 0) std::puts(parameters.describe().c_str());
  const Activations whole(world);  // has room for a weight as well
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<float> weight = random_values(static_cast<unsigned>(layer) + 1, width * width, 0.02F);
    for (std::int64_t i = 0; i < width; ++i) weight[static_cast<std::size_t>(i * width + i)] += 1;
    const tandem::TensorView view = whole.view().narrow(0, 0, width);
    device.upload(view, weight);
    parameters.load(layer, 0, view, stream);  // this rank's part of it
    stream.synchronize();
  }

  // y = x · weightᵀ, its gradients dx = dy · weight and dweight = dyᵀ · x / tokens.
  const auto forward = device.gemm({.m = tokens, .n = width, .k = width, .transpose_b = true});
  const auto backward = device.gemm({.m = tokens, .n = width, .k = width});
  const auto gradient = device.gemm({.m = width, .n = width, .k = tokens, .transpose_a = true, .alpha = 1.0F / tokens});

  std::vector<Activations> x;  // what each layer is given, and what the last one returns
  for (int i = 0; i <= layers; ++i) x.emplace_back(world);
  std::vector<Activations> dy;  // in turns
  for (int i = 0; i < 2; ++i) dy.emplace_back(world);
  const Activations target(world);
  const auto mine = random_values(100 + static_cast<unsigned>(team.rank()), tokens * width, 1);  // this rank's tokens
  std::vector<float> wanted = mine;
  for (float& value : wanted) value *= -0.5F;
  device.upload(x[0].view(), mine);
  device.upload(target.view(), wanted);

  const auto error = [&] {  // y - target
    device.map(stream, {.kind = tandem::MapKind::add,
                        .out = dy[0].data(),
                        .x = x[layers].data(),
                        .y = target.data(),
                        .count = tokens * width,
                        .beta = -1});
  };
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    for (int layer = 0; layer < layers; ++layer) {
      const auto weight = parameters.unshard(layer, stream)[0];
      const auto at = static_cast<std::size_t>(layer);
      forward->run(stream, {.a = x[at].data(), .b = weight.data(), .d = x[at + 1].data()});
      parameters.reshard(layer, stream);
    }
    error();
    for (int layer = layers - 1; layer >= 0; --layer) {
      const auto weight = parameters.unshard(layer, stream)[0];
      const auto dweight = parameters.gradients(layer, stream)[0];
      const auto at = static_cast<std::size_t>(layer);
      const Activations& given = dy[static_cast<std::size_t>(layers - 1 - layer) % 2];
      gradient->run(stream, {.a = given.data(), .b = x[at].data(), .d = dweight.data()});
      parameters.reduce_gradients(layer, stream, {.alpha = 1.0F / static_cast<float>(team.size())});  // the mean
      backward->run(
          stream,
          {.a = given.data(), .b = weight.data(), .d = dy[static_cast<std::size_t>(layers - layer) % 2].data()});
      parameters.reshard(layer, stream);
    }
    parameters.finish(stream);  // all gradients are there
    const tandem::TensorView shards = parameters.all_shards();
    device.map(stream, {.kind = tandem::MapKind::add,
                        .out = shards.data(),
                        .x = shards.data(),
                        .y = parameters.all_gradients().data(),
                        .count = shards.numel(),
                        .beta = -rate});
    if (step != 0 && step != 59) continue;
    error();
    team.synchronize(stream);
    double sum = 0;
    for (const float value : device.download<float>(dy[0].view()))
      sum += static_cast<double>(value) * static_cast<double>(value);
    (step == 0 ? first : last) = std::sqrt(sum / static_cast<double>(tokens * width));
  }
  if (team.rank() == 0) std::printf("error of rank 0: %.4f before, %.4f after\n", first, last);
  return last < first / 4 ? 0 : 1;
} catch (const tandem::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

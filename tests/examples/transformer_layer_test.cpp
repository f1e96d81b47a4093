// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <vector>

#include "tandem/base/scalar.hpp"

#include "support/devices.hpp"
#include "support/oracle.hpp"
#include "support/ranks.hpp"
#include "transformer_layer/check.hpp"
#include "transformer_layer/layer.hpp"
#include "transformer_layer/values.hpp"

namespace tandem::transformer_layer {
namespace {

constexpr LayerSizes odd_layer{.tokens = 29, .hidden = 22, .mlp = 13, .qkv = 17};

/// A global tensor of part `number`, as the example generates it.
std::vector<double> whole(std::uint64_t seed, std::size_t number, std::uint64_t tensor, std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t place = 0; place < count; ++place) {
    values.push_back(
        static_cast<double>(value_at(key_of(seed, 3 * number + tensor), static_cast<std::uint64_t>(place))));
  }
  return values;
}

/// The whole expected result of `part`, as `ranks` ranks compute it.
testing::Expected expected(const Part& part, std::size_t number, Result result, std::int64_t tokens, DType dtype,
                           std::uint64_t seed, int ranks) {
  const auto x = whole(seed, number, 0, tokens * part.inputs);
  const auto weight = whole(seed, number, 1, part.outputs * part.inputs);
  const auto dy = whole(seed, number, 2, tokens * part.outputs);
  const auto shares = [&](std::int64_t terms) {
    std::vector<std::int64_t> parts;
    for (int rank = 0; rank < ranks; ++rank) parts.push_back(shard_of(terms, ranks, rank).count);
    return parts;
  };
  switch (result) {
    case Result::y: {
      const auto right = testing::transposed(weight, part.outputs, part.inputs);
      testing::Product product{.m = tokens, .n = part.outputs, .k = part.inputs, .a = x, .b = right, .dtype = dtype};
      if (part.split == Split::inputs) product.parts = shares(part.inputs);
      product.travels = dtype;
      return testing::expected_product(product);
    }
    case Result::dx: {
      testing::Product product{.m = tokens, .n = part.inputs, .k = part.outputs, .a = dy, .b = weight, .dtype = dtype};
      if (part.split == Split::outputs) product.parts = shares(part.outputs);
      product.travels = dtype;
      return testing::expected_product(product);
    }
    case Result::dw: {
      const auto left = testing::transposed(dy, tokens, part.outputs);
      return testing::expected_product(
          {.m = part.outputs, .n = part.inputs, .k = tokens, .a = left, .b = x, .dtype = dtype});
    }
  }
  return {};
}

/// A rank's block of the expected result.
testing::Expected of_block(const testing::Expected& all, const Block& block, std::int64_t columns) {
  testing::Expected own;
  own.terms = all.terms;
  own.dtype = all.dtype;
  for (std::int64_t r = block.rows.begin; r < block.rows.begin + block.rows.count; ++r) {
    for (std::int64_t c = block.columns.begin; c < block.columns.begin + block.columns.count; ++c) {
      const auto at = static_cast<std::size_t>(r * columns + c);
      own.value.push_back(all.value[at]);
      own.unfused.push_back(all.unfused[at]);
      own.magnitude.push_back(all.magnitude[at]);
      own.rounded.push_back(all.rounded[at]);
    }
  }
  return own;
}

struct Named {
  Result result;
  Operand like;
  const Tensor* tensor;
  const char* name;
};

std::array<Named, 3> results_of(const Operands& own) {
  return {{{Result::y, Operand::y, &own.y, "y"},
           {Result::dx, Operand::x, &own.dx, "dx"},
           {Result::dw, Operand::weight, &own.dw, "dw"}}};
}

std::vector<std::byte> contents(Device& device, const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.view().bytes());
  device.download(bytes.data(), tensor.view().data(), bytes.size());
  return bytes;
}

void poison(Device& device, const Tensor& tensor) {
  const std::vector<std::byte> ones(tensor.view().bytes(), std::byte{0xff});
  device.upload(tensor.view().data(), ones.data(), ones.size());
}

/// Runs the layer several times, and checks every element of every result with the oracle and with the example's own
/// check.
void check_layer(World& world, const LayerSizes& sizes, DType dtype, const LinearOptions& options = {}) {
  const Team& team = world.team();
  const std::uint64_t seed = testing::seed();
  const std::vector<Part> parts = parts_of(sizes);
  std::vector<Operands> operands;
  for (std::size_t i = 0; i < parts.size(); ++i) operands.push_back(make_operands(team, sizes, i, dtype, seed));
  TransformerLayer layer(team, sizes, dtype, options);
  const Stream stream(world.device());
  for (int run = 0; run < 3; ++run) {
    for (const Operands& own : operands) {
      for (const Named& named : results_of(own)) poison(world.device(), *named.tensor);
    }
    team.barrier();
    for (int again = 0; again <= run; ++again) {  // all but the first time, several runs without waiting in between
      layer.forward(operands, stream);
      layer.backward(operands, stream);
    }
    team.synchronize(stream);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (const Named& named : results_of(operands[i])) {
        const std::vector<std::byte> out = contents(world.device(), *named.tensor);
        const Block block = block_of(parts[i], named.like, sizes.tokens, team.size(), team.rank());
        const testing::Expected all = expected(parts[i], i, named.result, sizes.tokens, dtype, seed, team.size());
        const std::int64_t columns = named.like == Operand::y ? parts[i].outputs : parts[i].inputs;
        const auto comparison = testing::compare(of_block(all, block, columns), out.data());
        EXPECT_EQ(comparison.wrong, 0) << parts[i].name << " " << named.name << ", run " << run << ", seed " << seed
                                       << ": " << testing::to_string(comparison);
        const Verdict verdict =
            check(parts[i], i, named.result, sizes.tokens, dtype, seed, out, team.size(), team.rank(), true);
        EXPECT_EQ(verdict.wrong, 0) << parts[i].name << " " << named.name << ", seed " << seed << ": " << verdict.worst
                                    << " of the bound";
        EXPECT_EQ(verdict.compared, block.rows.count * block.columns.count);
      }
    }
  }
}

using Layer = testing::OnEachDevice;
TANDEM_ON_EACH_DEVICE(Layer);

TEST_P(Layer, IsRightInEveryElementInF32) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    on(ranks, [](World& world) { check_layer(world, odd_layer, f32); });
  }
}

TEST_P(Layer, IsRightInEveryElementInBf16) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    on(ranks, [](World& world) { check_layer(world, odd_layer, bf16); });
  }
}

TEST_P(Layer, IsRightInEveryElementInF16) {
  for (const int ranks : {2, 3}) {
    on(ranks, [](World& world) { check_layer(world, odd_layer, f16); });
  }
}

// With and without overlap.
TEST_P(Layer, IsRightWithEachAlgorithm) {
  for (const char* algorithm : {"pipeline", "sequence"}) {
    for (const bool keeps : {false, true}) {
      for (const int ranks : {2, 3}) {
        on(ranks, [=](World& world) {
          check_layer(world, {.tokens = 96, .hidden = 40, .mlp = 24, .qkv = 56}, bf16,
                      {.algorithm = algorithm, .groups = std::nullopt, .keep_gathered = keeps});
        });
      }
    }
  }
}

// Of five ranks the last two have nothing: 6 is split as 2, 2, 2, 0, 0, and the mlp's 3 as 1, 1, 1, 0, 0.
TEST_P(Layer, LetsRanksHaveNothing) {
  for (const bool keeps : {false, true}) {
    on(5, [keeps](World& world) {
      check_layer(world, {.tokens = 6, .hidden = 6, .mlp = 3, .qkv = 6}, f32, {.keep_gathered = keeps});
    });
  }
}

// values_test.py reads the same table: both languages must generate the same tensors.
TEST(Values, AreThoseOfTheTable) {
  std::ifstream table(TANDEM_TEST_VALUES);
  std::string line;
  int rows = 0;
  while (std::getline(table, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::uint64_t seed = 0;
    std::uint64_t tensor = 0;
    std::uint64_t place = 0;
    float value = 0;
    ASSERT_TRUE(fields >> seed >> tensor >> place >> value) << line;
    EXPECT_EQ(value_at(key_of(seed, tensor), place), value) << line;
    ++rows;
  }
  EXPECT_GE(rows, 10);
}

TEST(Values, AreExactInEveryDtype) {
  const std::uint64_t seed = testing::seed();
  double sum = 0;
  double squares = 0;
  constexpr int count = 100'000;
  for (std::uint64_t place = 0; place < count; ++place) {
    const float value = value_at(key_of(seed, 0), place);
    ASSERT_GE(value, -1);
    ASSERT_LT(value, 1);
    ASSERT_EQ(static_cast<float>(BFloat16(value)), value) << "place " << place << ", seed " << seed;
    ASSERT_EQ(static_cast<float>(Half(value)), value) << "place " << place << ", seed " << seed;
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(sum / count, 0, 0.015) << "seed " << seed;  // eight standard deviations of the mean
  EXPECT_NEAR(squares / count, 1.0 / 3, 0.01) << "seed " << seed;
}

TEST(Blocks, CoverEveryElementOnce) {
  for (const Part& part : parts_of(odd_layer)) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      for (const Operand operand : {Operand::x, Operand::weight, Operand::y}) {
        const std::int64_t rows = operand == Operand::weight ? part.outputs : odd_layer.tokens;
        const std::int64_t columns = operand == Operand::y ? part.outputs : part.inputs;
        std::vector<int> covered(static_cast<std::size_t>(rows * columns), 0);
        for (int rank = 0; rank < ranks; ++rank) {
          const Block block = block_of(part, operand, odd_layer.tokens, ranks, rank);
          for (std::int64_t row = block.rows.begin; row < block.rows.begin + block.rows.count; ++row) {
            for (std::int64_t column = block.columns.begin; column < block.columns.begin + block.columns.count;
                 ++column) {
              ++covered.at(static_cast<std::size_t>(row * columns + column));
            }
          }
        }
        EXPECT_EQ(std::ranges::count(covered, 1), rows * columns) << part.name << ", " << ranks << " ranks";
      }
    }
  }
}

// The example's check must detect a single element that is off by 1e-3 if all are compared, and one that was never
// written even if only some are.
TEST(LayerCheck, SeesOneWrongElement) {
  const std::uint64_t seed = testing::seed();
  const LayerSizes sizes{.tokens = 90, .hidden = 80, .mlp = 70, .qkv = 60};
  const std::vector<Part> parts = parts_of(sizes);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const testing::Expected right = expected(parts[i], i, Result::y, sizes.tokens, f32, seed, 1);
    std::vector<float> out(right.value.begin(), right.value.end());
    const auto verdict = [&](bool every) {
      std::vector<std::byte> bytes(out.size() * sizeof(float));
      std::memcpy(bytes.data(), out.data(), bytes.size());
      return check(parts[i], i, Result::y, sizes.tokens, f32, seed, bytes, 1, 0, every);
    };
    EXPECT_EQ(verdict(true).wrong, 0) << parts[i].name << ", seed " << seed;
    EXPECT_EQ(verdict(false).wrong, 0) << parts[i].name << ", seed " << seed;
    out[out.size() / 2 + 1] += 1e-3F;
    EXPECT_EQ(verdict(true).wrong, 1) << parts[i].name << ", seed " << seed;
    std::memset(&out[out.size() / 2 + 1], 0xff, sizeof(float));
    EXPECT_EQ(verdict(true).wrong, 1) << parts[i].name << ", seed " << seed;
    EXPECT_GE(verdict(false).wrong, 1) << parts[i].name << ", seed " << seed;
  }
}

}  // namespace
}  // namespace tandem::transformer_layer

// SPDX-License-Identifier: Apache-2.0
#include "linear/product_turns.hpp"

#include <array>
#include <cstdint>
#include <gtest/gtest.h>
#include <utility>

#include "tandem/memory/symmetric_tensor.hpp"

#include "support/cuda/recorded_graph.hpp"
#include "support/devices.hpp"
#include "support/guarded_tensor.hpp"

namespace tandem {
namespace {

using testing::GuardedTensor;
using testing::is_product;
using testing::is_wait;
using testing::is_wait_or_product;

class ProductTurnsCapture : public testing::OnEachDevice {};

// A GEMM need not wait for the previous one, but its waits must: each counts signals from where that one stopped.
// Recorded only, as runs that are captured, and as runs that are not.
TEST_P(ProductTurnsCapture, GemmsTakeTurnsOrTheirWaitsAreBesideThemWhereTheFirstLeavesAnSm) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const GemmSpec product{.m = 256, .n = 256, .k = 128, .transpose_b = true, .dtype = bf16, .out_dtype = bf16};
    const GuardedTensor x(team, {product.m, product.k}, bf16);
    const GuardedTensor weight(team, {product.n, product.k}, bf16);
    const GuardedTensor y(team, {product.m, product.n}, bf16);
    SymmetricTensor memory = SymmetricTensor::empty(team, {16}, f32);
    memory.rendezvous();
    const SignalPad& pad = memory.signal_pad();
    const int peer = 1 - team.rank();
    const Stream stream(team.device());
    ProductTurns turns(team, product, 4);
    const bool alone = team.resident_blocks() == team.device().hardware().blocks_at_once;  // no ranks share a GPU
    EXPECT_TRUE(turns.take_turns());
    constexpr std::int64_t many = 1 << 20;
    const std::array<std::pair<bool, std::int64_t>, 4> runs{
        {{false, product.m}, {true, product.m}, {true, many}, {false, many}}};
    for (const auto& [capturing, rows] : runs) {
      int on_stream = 0;
      const testing::RecordedGraph graph(team.device(), stream, [&, capturing = capturing, rows = rows] {
        turns.begin(stream, Weights::once, rows, capturing);
        for (int i = 0; i < 4; ++i) {
          const ProductTurns::Turn turn = turns.next(stream);
          on_stream += turn.stream == stream.ref() ? 1 : 0;
          pad.wait_signals(turn.waits, {&peer, 1}, 0);
          turns.waited(turn);
          turn.gemm.run(
              turn.stream,
              {.a = x.view().data(), .b = weight.view().data(), .d = y.view().data(), .weights = turn.weights});
        }
        turns.rejoin(stream);
      });
      EXPECT_EQ(on_stream, capturing ? 4 : 2);
      EXPECT_EQ(graph.most_kernels_at_once(is_wait), 1U);
      EXPECT_EQ(graph.most_kernels_at_once(is_product) > 1, !capturing);
      EXPECT_EQ(graph.most_kernels_at_once(is_wait_or_product) > 1, !capturing || (alone && rows == product.m));
    }
    team.barrier();  // before any rank releases what was recorded
  });
}

INSTANTIATE_TEST_SUITE_P(Device, ProductTurnsCapture, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem

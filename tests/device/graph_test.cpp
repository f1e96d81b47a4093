// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/graph.hpp"

#include <algorithm>
#include <cstddef>
#include <gtest/gtest.h>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "device/on_device.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

constexpr std::size_t filled = 1000;

class GraphTest : public OnDevice {
 protected:
  [[nodiscard]] std::vector<std::byte> content(const Buffer& buffer) const { return download<std::byte>(buffer); }
};

TEST_P(GraphTest, RunsAtEachLaunchAndNotWhenRecorded) {
  const Stream stream(device());
  const std::vector<std::byte> first = random_bytes(filled);
  const std::vector<std::byte> second = random_bytes(filled);
  const Buffer from = upload(first);
  const Buffer to = upload(second);
  EXPECT_TRUE(device().records_graphs());
  const Graph graph(device(), stream, [&] {
    device().copy(stream, {.dst = to.data(), .src = from.data(), .bytes = filled, .path = Path::local});
  });
  stream.synchronize();
  EXPECT_EQ(content(to), second);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(content(to), first);
  device().upload(from.data(), second.data(), filled);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(content(to), second);
}

TEST_P(GraphTest, RecordsStreamsThatAreTiedToItsOwn) {
  const Stream stream(device());
  const Stream other(device());
  Event begun(device());
  Event ended(device());
  const Buffer memory = upload(random_bytes(filled));
  const Graph graph(device(), stream, [&] {
    order_after(other, stream, begun);
    device().fill(other, memory.data(), std::byte{1}, filled);
    order_after(stream, other, ended);
    device().fill(stream, memory.data(), std::byte{2}, filled / 2);
  });
  graph.launch(stream);
  stream.synchronize();
  std::vector<std::byte> wanted(filled, std::byte{1});
  std::fill_n(wanted.begin(), filled / 2, std::byte{2});
  EXPECT_EQ(content(memory), wanted);
}

TEST_P(GraphTest, MovesAndGoesWhileItsLaunchRuns) {
  const Stream stream(device());
  const Buffer memory = upload(random_bytes(filled));
  {
    Graph graph(device(), stream, [&] { device().fill(stream, memory.data(), std::byte{3}, filled); });
    const Graph moved = std::move(graph);
    moved.launch(stream);
  }
  stream.synchronize();
  EXPECT_EQ(content(memory), std::vector<std::byte>(filled, std::byte{3}));
}

TEST_P(GraphTest, WhatThrowsLeavesTheStreamAsItWas) {
  const Stream stream(device());
  const Buffer memory = upload(random_bytes(filled));
  EXPECT_THROW(Graph(device(), stream,
                     [&] {
                       device().fill(stream, memory.data(), std::byte{4}, filled);
                       throw std::out_of_range("in the middle");
                     }),
               std::out_of_range);
  EXPECT_EQ(device().stream_capture(stream), 0U);
  device().fill(stream, memory.data(), std::byte{5}, filled);
  stream.synchronize();
  EXPECT_EQ(content(memory), std::vector<std::byte>(filled, std::byte{5}));
}

TEST_P(GraphTest, WhatCannotBeRecordedIsAnErrorAndTheDeviceGoesOn) {
  const Stream stream(device());
  const Buffer memory = upload(random_bytes(filled));
  EXPECT_THROW(Graph(device(), stream, [&] { stream.synchronize(); }), DeviceError);
  const Graph graph(device(), stream, [&] { device().fill(stream, memory.data(), std::byte{6}, filled); });
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(content(memory), std::vector<std::byte>(filled, std::byte{6}));
}

TEST_P(GraphTest, OneThatWasMovedFromSaysSo) {
  const Stream stream(device());
  const Buffer memory = upload(random_bytes(filled));
  const auto fills = [&](std::byte value) {
    return Graph(device(), stream, [&, value] { device().fill(stream, memory.data(), value, filled); });
  };
  Graph graph = fills(std::byte{1});
  Graph moved = fills(std::byte{2});
  moved = std::move(graph);
  moved.launch(stream);
  stream.synchronize();
  EXPECT_EQ(content(memory), std::vector<std::byte>(filled, std::byte{1}));
  // NOLINTNEXTLINE(bugprone-use-after-move)
  expect_error<InvalidArgument>([&] { graph.launch(stream); }, {"moved from"});
}

INSTANTIATE_TEST_SUITE_P(Each, GraphTest, ::testing::Values(DeviceType::cuda), type_name);

TEST(HostGraph, IsUnsupportedAndSaysSo) {
  const auto host = open_device({DeviceType::host, 0});
  const Stream stream(*host);
  EXPECT_FALSE(host->records_graphs());
  expect_error<Unsupported>([&] { const Graph graph(*host, stream, [] {}); }, {"host", "records no graphs"});
}

}  // namespace
}  // namespace tandem::testing

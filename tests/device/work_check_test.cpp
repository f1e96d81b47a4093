// SPDX-License-Identifier: Apache-2.0
// Work that no device can do is refused before anything is queued.
#include "device/work_check.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/stream.hpp"

#include "device/on_device.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

class WorkCheck : public OnDevice {};

TEST_P(WorkCheck, WhatNoDeviceCanDoIsNotQueued) {
  const Stream stream(device());
  const Buffer buffer = upload(std::vector<float>(8, 1.0F));
  auto* const x = buffer.data_as<float>();
  const std::array<const void*, 1> sources{x};
  const std::array<const void*, 1> no_sources{nullptr};
  const std::array<void*, 1> destinations{x};
  const auto refused = [](std::initializer_list<std::string> parts, const auto& work) {
    expect_error<InvalidArgument>(work, parts);
  };
  const auto map = [&](const Map& wrong) { return [&, wrong] { device().map(stream, wrong); }; };
  refused({"a map of -1 elements", "0 and more"}, map({.out = x, .x = x, .count = -1}));
  refused({"a map without an x"}, map({.out = x, .count = 8}));
  refused({"a map without an out"}, map({.x = x, .count = 8}));
  refused({"a map without a y"}, map({.kind = MapKind::add, .out = x, .x = x, .count = 8}));
  for (const std::int64_t columns : {0, -1}) {
    refused({"a bias of " + std::to_string(columns) + " columns", "1 and more"},
            map({.kind = MapKind::activate, .out = x, .x = x, .bias = x, .count = 8, .columns = columns}));
  }
  refused({"a map's kind number 9", "0 to 3"}, map({.kind = static_cast<MapKind>(9), .out = x, .x = x, .count = 8}));
  refused({"a map's activation number 9", "0 to 2"},
          map({.out = x, .x = x, .count = 8, .activation = static_cast<Activation>(9)}));

  const auto reduction = [&](const Reduction& wrong) { return [&, wrong] { device().reduce(stream, wrong); }; };
  refused({"a reduction of -1 elements"}, reduction({.sources = sources, .destinations = destinations, .count = -1}));
  refused({"a reduction of 0 sources into 1"}, reduction({.destinations = destinations, .count = 8}));
  refused({"a reduction of 1 sources into 0"}, reduction({.sources = sources, .count = 8}));
  refused({"a reduction without a source"},
          reduction({.sources = no_sources, .destinations = destinations, .count = 8}));
  refused({"a reduction with a bias of 0 columns"},
          reduction({.sources = sources, .destinations = destinations, .count = 8, .bias = x, .columns = 0}));
  refused(
      {"a reduction's activation number 9"},
      reduction(
          {.sources = sources, .destinations = destinations, .count = 8, .activation = static_cast<Activation>(9)}));

  for (const Reduction& of_integers : {Reduction{.bias = x}, Reduction{.activation = Activation::gelu_erf}}) {
    Reduction wrong = of_integers;
    wrong.sources = sources;
    wrong.destinations = destinations;
    wrong.count = 8;
    wrong.dtype = wrong.out_dtype = i32;
    refused({"a reduction of i32 with a", "floating-point"}, reduction(wrong));
  }

  refused({"a column sum of [-1, 2]"},
          [&] { device().column_sum(stream, {.out = x, .x = x, .rows = -1, .columns = 2}); });
  refused({"a column sum without an out"}, [&] { device().column_sum(stream, {.x = x, .rows = 1, .columns = 2}); });
  refused({"a column sum without an x"}, [&] { device().column_sum(stream, {.out = x, .rows = 1, .columns = 2}); });

  refused({"a copy without a destination"}, [&] { device().copy(stream, {.src = x, .bytes = 4}); });
  const Copy nowhere{.dst = x, .bytes = 4};
  refused({"a copy without a source"}, [&] { device().copy_batch(stream, std::span(&nowhere, 1)); });

  // Nothing of nothing is fine.
  device().map(stream, {});
  device().copy(stream, {});
  device().column_sum(stream, {});
  stream.synchronize();
  EXPECT_EQ(device().download<float>(TensorView(x, {8}, f32, device().id())), std::vector<float>(8, 1.0F));
}

TANDEM_ON_EACH_DEVICE(WorkCheck);

}  // namespace
}  // namespace tandem::testing

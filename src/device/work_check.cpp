// SPDX-License-Identifier: Apache-2.0
#include "device/work_check.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "tandem/base/error.hpp"

#include "base/enum_check.hpp"
#include "base/format.hpp"

namespace tandem {
namespace {

void expect_known(const std::string& why_not) {
  if (!why_not.empty()) throw InvalidArgument(why_not);
}

void expect_count(std::string_view what, std::int64_t count) {
  if (count < 0) throw InvalidArgument(format("{} of {} elements; allowed: 0 and more", what, count));
}

void expect_given(std::string_view what, const void* operand, std::string_view name) {
  if (operand == nullptr) throw InvalidArgument(format("{} without {}; it needs one", what, name));
}

void expect_columns(std::string_view what, const void* bias, std::int64_t columns) {
  if (bias != nullptr && columns < 1) {
    throw InvalidArgument(format("{} with a bias of {} columns; allowed: 1 and more", what, columns));
  }
}

}  // namespace

void check_copy(const Copy& copy) {
  if (copy.bytes == 0 || copy.rows == 0) return;
  expect_given("a copy", copy.dst, "a destination");
  expect_given("a copy", copy.src, "a source");
}

void check_reduction(const Reduction& reduction) {
  constexpr std::string_view what = "a reduction";
  expect_known(why_unknown("a reduction's activation", reduction.activation, Activation::gelu_tanh));
  if (std::max(reduction.sources.size(), reduction.destinations.size()) > max_reduce_operands) {
    throw InvalidArgument(format("a reduction of {} sources into {} destinations; allowed: at most {} of each",
                                 reduction.sources.size(), reduction.destinations.size(), max_reduce_operands));
  }
  if (epsilon(reduction.dtype) == 0 && (reduction.bias != nullptr || reduction.activation != Activation::none)) {
    throw InvalidArgument(format("a reduction of {} with {}; allowed with floating-point dtypes only",
                                 name(reduction.dtype), reduction.bias != nullptr ? "a bias" : "an activation"));
  }
  expect_count(what, reduction.count);
  if (reduction.count == 0) return;
  if (reduction.sources.empty() || reduction.destinations.empty()) {
    throw InvalidArgument(format("a reduction of {} sources into {} destinations; allowed: 1 and more of each",
                                 reduction.sources.size(), reduction.destinations.size()));
  }
  for (const void* const source : reduction.sources) expect_given(what, source, "a source");
  for (const void* const destination : reduction.destinations) expect_given(what, destination, "a destination");
  expect_columns(what, reduction.bias, reduction.columns);
}

void check_map(const Map& map) {
  constexpr std::string_view what = "a map";
  expect_known(why_unknown("a map's kind", map.kind, MapKind::add));
  expect_known(why_unknown("a map's activation", map.activation, Activation::gelu_tanh));
  expect_count(what, map.count);
  if (map.count == 0) return;
  expect_given(what, map.out, "an out");
  expect_given(what, map.x, "an x");
  if (map.kind == MapKind::activate_grad || map.kind == MapKind::add) expect_given(what, map.y, "a y");
  expect_columns(what, map.bias, map.columns);
}

void check_column_sum(const ColumnSum& sum) {
  if (sum.rows < 0 || sum.columns < 0) {
    throw InvalidArgument(format("a column sum of [{}, {}]; allowed: 0 and more", sum.rows, sum.columns));
  }
  if (sum.columns == 0) return;
  expect_given("a column sum", sum.out, "an out");
  if (sum.rows > 0) expect_given("a column sum", sum.x, "an x");
}

}  // namespace tandem

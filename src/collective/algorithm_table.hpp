// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/base/export.hpp"
#include "tandem/collective/collective.hpp"

namespace tandem {

/// The algorithms of runs on one kind of tensors.
struct AlgorithmRow {
  std::string_view tensors;  ///< "into plain views"
  std::string why_not;       ///< why the plan refuses such runs; empty: it accepts them
  std::function<std::string_view(std::int64_t count)> algorithm;
};

/// The row of a plan's runs on such tensors; its `state` must outlive it.
template <typename State>
[[nodiscard]] AlgorithmRow algorithm_row(const State& state, std::string_view name, Tensors tensors,
                                         std::string why_not) {
  return {name, std::move(why_not), [&state, tensors](std::int64_t count) { return state.algorithm(count, tensors); }};
}

struct AlgorithmNote {
  std::string_view algorithm;
  std::string text;
};

/// What `describe` says about a plan for runs of up to `most` elements of `element_bytes`: a line for each row, with
/// the sizes at which its algorithm changes, found by calling `algorithm`:
///   into plain views: mail up to 2 KiB, staged below 4 MiB, fetch
/// Then a line for each note whose algorithm a row names. From 16 bytes on, only multiples of 16 bytes are tried, since
/// some kernels take no other sizes.
[[nodiscard]] TANDEM_API std::string algorithm_table(std::span<const AlgorithmRow> rows,
                                                     std::span<const AlgorithmNote> notes, std::int64_t most,
                                                     std::size_t element_bytes);

}  // namespace tandem

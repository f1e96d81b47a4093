// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tandem/base/export.hpp"

namespace tandem {

/// Runs on one kind of tensors.
struct AlgorithmRow {
  std::string_view tensors;  ///< "into plain views"
  std::string why_not;       ///< why the plan takes no such run; empty: it does
  std::function<std::string_view(std::int64_t count)> algorithm;
};

struct AlgorithmNote {
  std::string_view algorithm;
  std::string text;
};

/// What `describe` says about a plan for runs of up to `most` elements of `element_bytes`. Each row is a line with the
/// sizes at which its algorithm changes, found by asking `algorithm`:
///   into plain views: mail up to 2 KiB, pull below 4 MiB, fetch
/// The notes whose algorithms a row names follow, a line each. Of sizes from 16 bytes on, their multiples are asked
/// for: kernels may take no others.
[[nodiscard]] TANDEM_API std::string algorithm_table(std::span<const AlgorithmRow> rows,
                                                     std::span<const AlgorithmNote> notes, std::int64_t most,
                                                     std::size_t element_bytes);

}  // namespace tandem

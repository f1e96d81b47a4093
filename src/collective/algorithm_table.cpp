// SPDX-License-Identifier: Apache-2.0
#include "collective/algorithm_table.hpp"

#include <algorithm>
#include <vector>

#include "base/format.hpp"
#include "collective/tuning.hpp"

namespace tandem {
namespace {

std::string size_in_words(std::int64_t bytes) {
  constexpr std::int64_t kib = 1024;
  if (bytes == 0 || bytes % kib != 0) return format("{} bytes", bytes);
  return bytes % (kib * kib) == 0 ? format("{} MiB", bytes / (kib * kib)) : format("{} KiB", bytes / kib);
}

/// Samples close enough that no algorithm is used only between two of them, but far enough apart to be few.
std::vector<std::int64_t> sampled_units(std::int64_t most) {
  std::vector<std::int64_t> sizes{1};
  for (std::int64_t size = 2; size < most; size += std::max<std::int64_t>(size / 2, 1)) sizes.push_back(size);
  if (most > 1) sizes.push_back(most);
  return sizes;
}

/// An algorithm, and the sizes that it is used for: those above the previous range.
struct Range {
  std::string_view algorithm;
  std::string up_to;  ///< " up to 2 KiB", " below 4 MiB"; empty: no upper bound
};

std::vector<Range> ranges_of(const AlgorithmRow& row, std::int64_t most, std::int64_t element_bytes) {
  const std::int64_t in_unit = std::max<std::int64_t>(static_cast<std::int64_t>(vector_bytes) / element_bytes, 1);
  if (most < in_unit) return {{row.algorithm(most), ""}};
  const auto algorithm = [&](std::int64_t units) { return row.algorithm(units * in_unit); };
  std::vector<Range> ranges;
  std::int64_t last = 1;
  for (const std::int64_t next : sampled_units(most / in_unit)) {
    if (algorithm(next) != algorithm(last)) {
      std::int64_t other = next;
      while (other - last > 1) {
        const std::int64_t middle = last + (other - last) / 2;
        (algorithm(middle) == algorithm(last) ? last : other) = middle;
      }
      const std::int64_t end = last * in_unit * element_bytes;
      const std::int64_t begin = other * in_unit * element_bytes;
      const bool below = end % 1024 != 0 && begin % 1024 == 0;
      ranges.push_back({algorithm(last), below ? " below " + size_in_words(begin) : " up to " + size_in_words(end)});
    }
    last = next;
  }
  ranges.push_back({algorithm(last), ""});
  return ranges;
}

}  // namespace

std::string algorithm_table(std::span<const AlgorithmRow> rows, std::span<const AlgorithmNote> notes, std::int64_t most,
                            std::size_t element_bytes) {
  std::string table;
  std::vector<std::string_view> named;
  for (const AlgorithmRow& row : rows) {
    table += format("\n{}: {}", row.tensors, row.why_not);
    if (!row.why_not.empty()) continue;
    std::string_view comma = "";
    for (const Range& range : ranges_of(row, most, static_cast<std::int64_t>(element_bytes))) {
      table += format("{}{}{}", comma, range.algorithm, range.up_to);
      named.push_back(range.algorithm);
      comma = ", ";
    }
  }
  for (const AlgorithmNote& note : notes) {
    if (std::ranges::find(named, note.algorithm) != named.end()) table += format("\n{}: {}", note.algorithm, note.text);
  }
  return table;
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "collective/algorithm_table.hpp"

#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <string_view>

namespace tandem {
namespace {

constexpr std::int64_t mebi = std::int64_t{1} << 20;

std::string table(std::int64_t most, std::size_t element_bytes) {
  // By bytes, as plans choose: only sizes that are multiples of 16 take a kernel.
  const auto of_bytes = [=](std::int64_t count) -> std::string_view {
    const std::int64_t bytes = count * static_cast<std::int64_t>(element_bytes);
    if (bytes <= 2048) return "mail";
    if (bytes < 3'000'000) return "staged";
    return bytes < 4 * mebi || bytes % 16 != 0 ? "push" : "kernel";
  };
  const AlgorithmRow rows[] = {
      {"into tensors", "", of_bytes},
      {"into views", "not taken", [](std::int64_t) -> std::string_view { return "never asked"; }},
      {"elsewhere", "", [](std::int64_t) -> std::string_view { return "mail"; }},
  };
  const AlgorithmNote notes[] = {{"kernel", "of one block"}, {"staged", "by peers"}, {"mai", "named by none"}};
  return algorithm_table(rows, notes, most, element_bytes);
}

TEST(AlgorithmTable, SaysAtWhichSizesAlgorithmsChange) {
  const std::string others = "\ninto views: not taken\nelsewhere: mail";
  const std::string all = "\ninto tensors: mail up to 2 KiB, staged up to 2999984 bytes, push below 4 MiB, kernel" +
                          others + "\nkernel: of one block\nstaged: by peers";
  for (const std::size_t element_bytes : {1U, 2U, 4U, 8U}) {
    const auto elements = [=](std::int64_t bytes) { return bytes / static_cast<std::int64_t>(element_bytes); };
    EXPECT_EQ(table(elements(4 * mebi), element_bytes), all);
    EXPECT_EQ(table(elements(100'000 * mebi) + 3, element_bytes), all);
    EXPECT_EQ(table(elements(4 * mebi - 16), element_bytes),
              "\ninto tensors: mail up to 2 KiB, staged up to 2999984 bytes, push" + others + "\nstaged: by peers");
    EXPECT_EQ(table(elements(2048), element_bytes), "\ninto tensors: mail" + others);
    EXPECT_EQ(table(elements(2064), element_bytes),
              "\ninto tensors: mail up to 2 KiB, staged" + others + "\nstaged: by peers");
    for (const std::int64_t few : {0, 1}) EXPECT_EQ(table(few, element_bytes), "\ninto tensors: mail" + others);
  }
}

}  // namespace
}  // namespace tandem

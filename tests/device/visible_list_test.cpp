// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/visible_list.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace tandem::cuda {
namespace {

TEST(VisibleList, IsReadAsCudaReadsIt) {
  struct Row {
    const char* list;
    std::optional<int> count;  ///< GPUs shown of two; empty: only CUDA can tell
  };
  const Row rows[]{
      {"", 0},
      {"0", 1},
      {"1", 1},
      {"0,1", 2},
      {"1,0", 2},
      {"0,", 1},
      {"-1", 0},
      {"-1,0", 0},
      {"0,-1", 1},
      {"2", 0},
      {"2,0", 0},
      {"0,9,1", 1},
      {"0,99999999999", std::nullopt},  // a number that overflows
      {"0,0", 0},
      {"1,0,1", 0},
      {"GPU-ab12-3", 1},
      {"GPU-ab1", 1},
      {"GPU-ab34-5,GPU-ab12-3", 2},
      {"1,GPU-ab12-3", 2},
      {"0,GPU-ab12-3", 0},  // the same GPU twice
      {"GPU-ab", 0},        // ambiguous: both match
      {"GPU-cd,0", 0},
      {"1,GPU-cd", 1},
      {"MIG-ab", std::nullopt},
      {"0, 1", std::nullopt},
      {"1x", std::nullopt},
      {",0", std::nullopt},
  };
  const std::vector<std::string> uuids{"GPU-ab12-3", "GPU-ab34-5"};
  for (const Row& row : rows) EXPECT_EQ(count_listed(row.list, uuids), row.count) << "'" << row.list << "'";
  EXPECT_EQ(count_listed("0", {}), 0);
}

}  // namespace
}  // namespace tandem::cuda

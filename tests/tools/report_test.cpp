// SPDX-License-Identifier: Apache-2.0
#include "tools/report.hpp"

#include <gtest/gtest.h>

namespace tandem::tools {
namespace {

TEST(Report, CellsOfCsvAreQuotedWhereTheyHaveTo) {
  EXPECT_EQ(csv_cell(nullptr), "");
  EXPECT_EQ(csv_cell(1.5), "1.5");
  EXPECT_EQ(csv_cell("asked for"), "asked for");
  EXPECT_EQ(csv_cell("tuned: it took 12.5 us, by plans"), "\"tuned: it took 12.5 us, by plans\"");
  EXPECT_EQ(csv_cell("the \"sequence\""), "\"the \"\"sequence\"\"\"");
  EXPECT_EQ(csv_cell("two\nlines"), "\"two\nlines\"");
}

}  // namespace
}  // namespace tandem::tools

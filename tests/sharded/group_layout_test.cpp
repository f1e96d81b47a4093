// SPDX-License-Identifier: Apache-2.0
#include "sharded/group_layout.hpp"

#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

#include "tandem/base/error.hpp"

#include "support/errors.hpp"

namespace tandem {
namespace {

const std::vector<ParameterGroup> various_groups{
    {"no parameters", {}},
    {"no elements", {{"none", {0}}, {"neither", {3, 0, 2}}}},
    {"one element", {{"scale", {}}}},
    {"one short row", {{"bias", {63}}}},
    {"aligned", {{"weight", {64, 2}}, {"bias", {128}}}},
    {"odd", {{"a", {3, 5}}, {"b", {}}, {"none", {0, 7}}, {"c", {1, 129}}, {"d", {77}}}},
};

/// Every element belongs to one parameter or gap, and these lie in order.
TEST(GroupLayout, CoversItsRange) {
  for (const ParameterGroup& group : various_groups) {
    for (const int ranks : {1, 2, 3, 4, 5, 8, 64}) {
      const GroupLayout layout(group, ranks);
      EXPECT_EQ(layout.elements(), layout.shard_elements() * ranks) << group.name;
      EXPECT_EQ(layout.shard_elements() % GroupLayout::alignment, 0) << group.name;
      ASSERT_EQ(layout.places().size(), group.parameters.size()) << group.name;
      std::vector<int> covered(static_cast<std::size_t>(layout.elements()));
      std::int64_t end = 0;
      for (std::size_t i = 0; i < group.parameters.size(); ++i) {
        const Shard& place = layout.places()[i];
        EXPECT_EQ(layout.sizes()[i], group.parameters[i].sizes);
        EXPECT_EQ(place.count, group.parameters[i].sizes.numel());
        EXPECT_EQ(place.begin % GroupLayout::alignment, 0);
        EXPECT_GE(place.begin, end) << "parameters overlap";
        end = place.begin + place.count;
        for (std::int64_t at = place.begin; at < end; ++at) ++covered.at(static_cast<std::size_t>(at));
      }
      for (const Shard& gap : layout.gaps()) {
        EXPECT_GT(gap.count, 0);
        for (std::int64_t at = gap.begin; at < gap.begin + gap.count; ++at) ++covered.at(static_cast<std::size_t>(at));
      }
      for (const int times : covered) EXPECT_EQ(times, 1) << group.name << " on " << ranks << " ranks";
    }
  }
}

/// The ranks' pieces are the parameters' elements, each once, where `places` puts them.
TEST(GroupLayout, PiecesAreWhatTheShardsHave) {
  for (const ParameterGroup& group : various_groups) {
    for (const int ranks : {1, 2, 3, 8}) {
      const GroupLayout layout(group, ranks);
      std::vector<std::int64_t> seen(group.parameters.size());
      for (int rank = 0; rank < ranks; ++rank) {
        std::int64_t end = 0;
        for (const ParameterPiece& piece : layout.pieces(rank)) {
          const auto index = static_cast<std::size_t>(piece.parameter);
          EXPECT_GT(piece.elements.count, 0);
          EXPECT_EQ(piece.elements.begin, seen.at(index)) << "elements are missing, or come twice";
          EXPECT_GE(piece.begin, end);
          EXPECT_EQ(rank * layout.shard_elements() + piece.begin, layout.places()[index].begin + piece.elements.begin);
          seen.at(index) += piece.elements.count;
          end = piece.begin + piece.elements.count;
          EXPECT_LE(end, layout.shard_elements());
        }
      }
      for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], group.parameters[i].sizes.numel()) << group.name;
    }
  }
}

TEST(GroupLayout, RefusesSizesThatNoMemoryHas) {
  const std::int64_t half = std::int64_t{1} << 47;
  EXPECT_EQ(GroupLayout({"g", {{"a", {half}}, {"b", {half}}}}, 2).elements(), 2 * half);
  testing::expect_error<InvalidArgument>(
      [half] { const GroupLayout layout({"g", {{"a", {half}}, {"b", {half, 2}}}}, 2); },
      {"'b'", "'g'", "begins at element 140737488355328"});
  testing::expect_error<InvalidArgument>([] { const GroupLayout layout({"g", {{"a", {-1}}}}, 2); }, {"-1"});
}

}  // namespace
}  // namespace tandem

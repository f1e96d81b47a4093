// SPDX-License-Identifier: Apache-2.0
// Tables of wrong use (*_rows.cpp). Each row must throw an error of its kind on every rank, with a message that says
// what was given and what is allowed ("{rank}" in a fragment is the rank's number); afterwards the ranks can continue.
#include <gtest/gtest.h>
#include <ostream>
#include <string>

#include "tandem/base/error.hpp"

#include "support/ranks.hpp"
#include "wrong_use/rows.hpp"

namespace tandem::wrong_use {

// Not in the unnamed namespace: gtest finds it by argument-dependent lookup.
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

namespace {

std::string with_rank(std::string text, int rank) {
  const std::string mark = "{rank}";
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? text : text.replace(at, mark.size(), std::to_string(rank));
}

void check(const Row& row, const Error& error, Kind kind, int rank) {
  EXPECT_EQ(kind, row.kind) << error.what();
  for (const std::string& fragment : row.fragments) {
    EXPECT_NE(std::string(error.what()).find(with_rank(fragment, rank)), std::string::npos)
        << "no \"" << with_rank(fragment, rank) << "\" in: " << error.what();
  }
}

template <typename Run> void expect_error(const Row& row, int rank, const Run& wrong) {
  try {
    wrong();
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgument& error) {
    check(row, error, Kind::invalid_argument, rank);
  } catch (const Unsupported& error) {
    check(row, error, Kind::unsupported, rank);
  }
}

class WrongUse : public ::testing::TestWithParam<Row> {};

TEST_P(WrongUse, IsTold) {
  const Row& row = GetParam();
  if (row.ranks == 0) {
    expect_error(row, 0, row.wrong.alone);
    return;
  }
  testing::run_ranks(row.ranks, [&](World& world) {
    expect_error(row, world.rank(), [&] { row.wrong.in_world(world); });
    world.team().barrier();  // no rank was left waiting in a call that the others did not make
  });
}

constexpr auto name_of_row = [](const ::testing::TestParamInfo<Row>& row) { return std::string(row.param.name); };
INSTANTIATE_TEST_SUITE_P(Base, WrongUse, ::testing::ValuesIn(base_rows()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Team, WrongUse, ::testing::ValuesIn(team_rows()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Memory, WrongUse, ::testing::ValuesIn(memory_rows()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Collective, WrongUse, ::testing::ValuesIn(collective_rows()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Linear, WrongUse, ::testing::ValuesIn(linear_rows()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Commands, WrongUse, ::testing::ValuesIn(command_rows()), name_of_row);

}  // namespace
}  // namespace tandem::wrong_use

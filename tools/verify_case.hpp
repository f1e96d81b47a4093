// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "tandem/team/world.hpp"

#include "support/oracle.hpp"
#include "tools/operation.hpp"
#include "tools/random.hpp"

namespace tandem::tools {

/// Which of `verify`'s cases: everything about it follows from these and the number of ranks.
struct CaseName {
  Operation operation = Operation::all_reduce;
  std::uint64_t seed = 0;
  std::int64_t index = 0;
  bool delay = false;  ///< hold up ranks in this case for sure
};

/// What became of a case on one rank.
struct CaseResult {
  std::string what;   ///< the case in words; empty on a rank that had no part in it
  std::string wrong;  ///< empty if nothing was
};

/// Runs a case on a random team of the world's ranks. Every rank of the world calls it; who is not in the team comes
/// back at once. Throws only where the world itself has failed.
[[nodiscard]] CaseResult run_case(const World& world, const CaseName& name);

/// A case while one member of its team runs it.
class Case {
 public:
  Case(const Team& team, const CaseName& name);

  [[nodiscard]] const Team& team() const noexcept { return team_; }
  /// What all members draw alike.
  [[nodiscard]] Random& random() noexcept { return random_; }
  /// A key for data.
  [[nodiscard]] std::uint64_t key(std::initializer_list<std::uint64_t> parts) const;
  /// Number of rows or columns: often odd or tiny, now and then nothing.
  [[nodiscard]] std::int64_t extent(std::int64_t most);

  /// Holds up this rank, or its stream, at random points of some cases.
  void maybe_delay(StreamRef stream);

  void describe(const std::string& text) { result_.what = text; }
  /// A run's result, as it is compared. With TANDEM_TEST_CORRUPT=1 the first one of a case has a wrong element, which
  /// tests that a wrong result is told.
  [[nodiscard]] std::vector<std::byte> taken(std::vector<std::byte> result, DType dtype);
  void expect(const testing::Comparison& comparison, std::int64_t run);
  void expect(bool right, const std::string& otherwise, std::int64_t run);
  /// Collective: that every member has the same bits.
  void expect_same_bits(std::span<const std::byte> result, std::int64_t run);

  [[nodiscard]] const CaseResult& result() const noexcept { return result_; }

 private:
  Team team_;
  std::uint64_t key_;
  Random random_;
  Random own_;
  bool delays_;
  bool corrupt_;
  CaseResult result_;
};

// The two families of operations.
void run_linear_case(Operation operation, Case& self);
void run_collective_case(Operation operation, Case& self);

}  // namespace tandem::tools

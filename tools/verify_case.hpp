// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/graph.hpp"
#include "tandem/team/world.hpp"

#include "support/oracle.hpp"
#include "tools/operation.hpp"
#include "tools/random.hpp"

namespace tandem::tools {

/// Identifies a case of `verify`: together with the number of ranks, this determines everything about it.
struct CaseName {
  Operation operation = Operation::all_reduce;
  std::uint64_t seed = 0;
  std::int64_t index = 0;
  bool delay = false;  ///< delay ranks in this case for certain, not only by chance
};

/// The result of a case on one rank.
struct CaseResult {
  std::string what;   ///< the case in words; empty on a rank that was not in its team
  std::string wrong;  ///< what was wrong; empty if nothing was
};

/// Runs a case on a random team of the world's ranks. Every rank of the world calls it; ranks that are not in the team
/// return at once. Throws only if the world itself has failed.
[[nodiscard]] CaseResult run_case(const World& world, const CaseName& name);

/// A case, on one member of its team.
class Case {
 public:
  Case(const Team& team, const CaseName& name);

  [[nodiscard]] const Team& team() const noexcept { return team_; }
  /// Draws that are identical on all members.
  [[nodiscard]] Random& random() noexcept { return random_; }
  /// A key for random data.
  [[nodiscard]] std::uint64_t key(std::initializer_list<std::uint64_t> parts) const;
  /// A number of rows or columns: often odd or tiny, sometimes 0.
  [[nodiscard]] std::int64_t extent(std::int64_t most);

  /// In some cases, delays this rank or its stream at random points.
  void maybe_delay(StreamRef stream);

  /// Queues a run by `body` on one of `streams`: in some cases on the second, and on CUDA sometimes as a graph, whose
  /// launch is ordered behind the runs before, and before those that follow.
  void queue(std::span<const Stream, 2> streams, const std::function<void(StreamRef)>& body);

  void describe(const std::string& text) { result_.what = text; }
  /// A run's result to compare. With TANDEM_TEST_CORRUPT=1 the first one of a case gets a wrong element, which tests
  /// that wrong results are reported.
  [[nodiscard]] std::vector<std::byte> taken(std::vector<std::byte> result, DType dtype);
  void expect(const testing::Comparison& comparison, std::int64_t run);
  void expect(bool right, const std::string& otherwise, std::int64_t run);
  /// Collective: expects every member to have the same bits.
  void expect_same_bits(std::span<const std::byte> result, std::int64_t run);

  [[nodiscard]] const CaseResult& result() const noexcept { return result_; }

 private:
  Team team_;
  std::uint64_t key_;
  Random random_;
  Random own_;
  bool delays_;
  bool corrupt_;
  std::vector<Graph> graphs_;
  CaseResult result_;
};

// The two families of operations.
void run_linear_case(Operation operation, Case& self);
void run_collective_case(Operation operation, Case& self);

}  // namespace tandem::tools

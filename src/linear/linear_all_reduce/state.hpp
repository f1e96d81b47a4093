// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/linear/linear_all_reduce.hpp"

#include "linear/partial_sums.hpp"

namespace tandem {

/// What the plan owns, and its algorithms, each in a file of its own beside this one.
struct LinearAllReduce::State {
  using Algorithm = void (State::*)(const PartialSums::Operands& run, StreamRef stream);

  State(const Team& team, const LinearSpec& spec, const LinearChoice& choice, std::uint32_t operation);

  /// In rounds of one part of every rank's rows: while one is multiplied, the products of the one before travel, and
  /// the sums of that before them. Of two ranks, the peer's rows of all rounds first, then the own ones, which add.
  void pipeline(const PartialSums::Operands& run, StreamRef stream);
  /// In rounds, too, equal ones or not: while one is multiplied, the sums of the one before travel.
  void stepwise(const PartialSums::Operands& run, StreamRef stream);
  /// Multiplies into the peers' memory, so that rows travel as they are computed.
  void direct(const PartialSums::Operands& run, StreamRef stream);
  /// One rank's product, which is its result.
  void alone(const PartialSums::Operands& run, StreamRef stream);
  /// Multiplies once, then communicates.
  void sequence(const PartialSums::Operands& run, StreamRef stream);

  /// Lets the others take the sums of the round, and takes theirs when they are there, for which `waiting` waits.
  void exchange_sums(const PartialSums::Operands& run, std::uint32_t round, StreamRef stream, StreamRef waiting);

  Team team;
  LinearSpec spec;
  Algorithm algorithm;
  PartialSums sums;
  CommunicationStreams communication;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/linear/all_gather_linear.hpp"

#include "linear/communication_streams.hpp"
#include "linear/product_turns.hpp"
#include "linear/shard_gather.hpp"

namespace tandem {

/// What the plan owns, and its algorithms, each in a file of its own beside this one.
struct AllGatherLinear::State {
  struct Operands {
    const void* x;  ///< this rank's shard
    const void* weight;
    const void* bias;
    std::byte* aux;  ///< null without one
    std::byte* y;
    std::int64_t m;
  };
  using Algorithm = void (State::*)(const Operands& run, StreamRef stream);

  State(const Team& team, const LinearSpec& spec, const LinearOptions& options, LinearChoice choice,
        std::uint32_t operation);

  /// Multiplies while shards arrive.
  void pipeline(const Operands& run, StreamRef stream);
  /// Gathers, then multiplies once.
  void sequence(const Operands& run, StreamRef stream);

  /// y's rows [rows.begin, + rows.count), from their x at `x`.
  void multiply(const ProductTurns::Turn& turn, const Operands& run, const void* x, RowRange rows);
  /// The same for the rows of a group: one product for as many as lie together; a transposed shard is a block of its
  /// own.
  void multiply_gathered(const ProductTurns::Turn& turn, const Operands& run, const ShardGroup& group);

  Team team;
  LinearSpec spec;
  bool keep_gathered;
  LinearChoice choice;
  Algorithm algorithm;
  ShardGather gather;
  ProductTurns products;
  CommunicationStreams communication;
  std::int64_t kept_m = -1;  ///< rows of the last run, whose gathered x is kept; -1: none
  int owed_slot = -1;        ///< an earlier run's, which no peer may write until the next; -1: none
  bool opens = false;        ///< this run waits until all ranks have come so far
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tandem/attention/context_parallel_spec.hpp"
#include "tandem/device/attention.hpp"
#include "tandem/team/team.hpp"

#include "attention/attention_schedule.hpp"
#include "memory/owners.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The local attentions of a schedule, one for each kind of block.
class LocalAttentions {
 public:
  /// Collective. Throws Unsupported on all ranks if one cannot compute what it has to.
  LocalAttentions(const Team& team, const ContextParallelSpec& spec, const AttentionSchedule& schedule);

  /// Of a block of the schedule.
  [[nodiscard]] Attention& of(const AttentionBlock& block) const;
  /// Bytes to which operands must be aligned.
  [[nodiscard]] std::size_t alignment() const noexcept;
  [[nodiscard]] Owners owners() const;
  [[nodiscard]] std::string describe() const;

 private:
  void add(const Team& team, const ContextParallelSpec& spec, const AttentionBlock& block);
  [[nodiscard]] Attention* find(const AttentionBlock& block) const noexcept;

  std::vector<Reclaimed<Attention>> attentions_;
};

}  // namespace tandem

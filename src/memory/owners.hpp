// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "tandem/memory/symmetric_memory.hpp"

namespace tandem {

/// What a run uses, for a caller that must keep it alive for longer than the plan. None of them holds the team.
using Owners = std::vector<std::shared_ptr<void>>;

inline void append(Owners& owners, Owners more) {
  owners.insert(owners.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Owners of its memory and mappings, here and on the peers, without the table of `peer_pointers` and the range of
/// `contiguous`. Only after the rendezvous.
[[nodiscard]] Owners owners_of(const SymmetricMemory& memory);

}  // namespace tandem

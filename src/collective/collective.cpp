// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/collective.hpp"

#include <utility>

#include "collective/collective_state.hpp"

namespace tandem {

Collective::Collective(std::unique_ptr<CollectiveState> state) noexcept : Plan(std::move(state)) {}

DType Collective::dtype() const { return state<CollectiveState>().dtype(); }

}  // namespace tandem

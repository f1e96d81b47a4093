// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace measurement {

/// Runs `body` in `ranks` forked processes, each with its rank; returns 0 if all of them succeeded.
[[nodiscard]] int fork_ranks(int ranks, const std::function<void(int rank)>& body);

}  // namespace measurement

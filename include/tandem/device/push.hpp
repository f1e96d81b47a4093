// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/copy.hpp"
#include "tandem/device/signal.hpp"

namespace tandem {

/// A copy to a peer, and the signal that tells the peer that it has arrived.
struct Push {
  Copy copy{};
  SignalPut put{};
};

}  // namespace tandem

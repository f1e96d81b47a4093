// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "tandem/device/stream.hpp"
#include "tandem/team/world.hpp"

namespace tandem::examples {

/// Collective: runs `body`, which queues work on `stream`, and writes what each rank's streams do meanwhile to a file.
void write_timeline(const World& world, StreamRef stream, const std::string& path, const std::function<void()>& body);

}  // namespace tandem::examples

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace tandem::tools {

/// Calls body(begin, end) for disjoint ranges that together are [0, count): for long loops on the host, such as making
/// random data. Uses this process's share of its CPUs as threads, if `ranks` processes share them, but only so many
/// that each range has at least `least`. Rethrows what `body` throws, once all have ended.
void in_parallel(std::int64_t count, std::int64_t least, int ranks,
                 const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace tandem::tools

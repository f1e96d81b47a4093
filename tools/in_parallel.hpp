// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace tandem::tools {

/// Calls body(begin, end) for ranges that together are [0, count), none twice: for long loops of the host's, as those
/// that make random data. On as many threads as this process may use CPUs, if `ranks` processes share them, and on this
/// one alone where a range would have fewer than `least`. What `body` throws comes out here, once all have ended.
void in_parallel(std::int64_t count, std::int64_t least, int ranks,
                 const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace tandem::tools

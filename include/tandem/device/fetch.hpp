// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/copy.hpp"

namespace tandem {

/// Where a rank says which memory, private to its process, a peer may read. In memory that both have mapped.
struct Loan {
  const std::byte* begin = nullptr;  ///< an address in the process of the rank that lends
};

/// A copy out of a peer's private memory. What the peer lent, and that it did, is known when the stream gets there.
struct Fetch {
  void* dst = nullptr;
  const Loan* loan = nullptr;  ///< the peer's; its signal has been waited for on the same stream
  std::size_t offset = 0;      ///< bytes from where the loan begins
  std::size_t bytes = 0;
  std::int64_t process = 0;  ///< the peer's
  Path path = Path::link;
  std::int32_t peer = -1;       ///< its world rank, for the error, and since it may depart
  std::uint32_t operation = 0;  ///< which of the team's operations reads, for the error
};

}  // namespace tandem

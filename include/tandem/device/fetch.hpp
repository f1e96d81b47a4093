// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/copy.hpp"

namespace tandem {

/// Which memory, private to the lender's process, peers may read. Stored in memory that both ranks have mapped.
struct Loan {
  const std::byte* begin = nullptr;  ///< an address in the lender's process
};

/// A copy from a peer's private memory. The loan is read only when the stream reaches this operation.
struct Fetch {
  void* dst = nullptr;
  const Loan* loan = nullptr;  ///< the peer's; its signal must have been waited for on the same stream
  std::size_t offset = 0;      ///< in bytes, from the loan's beginning
  std::size_t bytes = 0;
  std::int64_t process = 0;  ///< the peer's process id
  Path path = Path::link;
  std::int32_t peer = -1;       ///< the peer's world rank, for errors and to notice its departure
  std::uint32_t operation = 0;  ///< which of the team's operations reads, for errors
};

}  // namespace tandem

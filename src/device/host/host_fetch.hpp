// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/fetch.hpp"
#include "tandem/device/signal.hpp"

namespace tandem {

/// Copies [address, address + bytes) of a process of this machine, by Linux's cross-memory attach. Gives 0, or the
/// errno that says why not all of it came.
[[nodiscard]] int read_process_memory(std::int64_t process, const void* address, void* to, std::size_t bytes) noexcept;

/// What `Device::fetch` does on the host when its turn has come.
void fetch_now(const Fetch& fetch, WaitControl& control) noexcept;

}  // namespace tandem

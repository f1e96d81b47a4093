// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/fetch.hpp"
#include "tandem/device/signal.hpp"

namespace tandem {

/// Copies [address, address + bytes) from a process of this machine, by Linux's cross-memory attach. Returns 0, or the
/// errno that says why not everything was copied.
[[nodiscard]] int read_process_memory(std::int64_t process, const void* address, void* to, std::size_t bytes) noexcept;

/// What the task that `Device::fetch` queues on the host does.
void fetch_now(const Fetch& fetch, WaitControl& control) noexcept;

}  // namespace tandem

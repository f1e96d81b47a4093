// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tandem {

/// A number that differs between a process and those that it forks, from the first call on. Costs no system call.
[[nodiscard]] unsigned fork_number() noexcept;

}  // namespace tandem

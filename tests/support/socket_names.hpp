// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tandem::testing {

/// What stands for a job's name in the names of its sockets.
[[nodiscard]] std::uint64_t hash_of_job(const std::string& job);
/// How the names of a job's sockets begin, if this user started it; '@' is the zero byte of an abstract one.
[[nodiscard]] std::string socket_prefix(std::uint64_t job_hash);

}  // namespace tandem::testing

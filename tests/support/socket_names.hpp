// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tandem::testing {

/// The hash that stands for a job's name in the names of its sockets.
[[nodiscard]] std::uint64_t hash_of_job(const std::string& job);
/// The prefix of the names of the sockets of a job of this user; '@' stands for an abstract name's zero byte.
[[nodiscard]] std::string socket_prefix(std::uint64_t job_hash);

}  // namespace tandem::testing

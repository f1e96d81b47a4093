// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tandem::fault {

/// How the names of a job's sockets begin.
[[nodiscard]] std::string socket_prefix(std::uint64_t job_hash);
/// The abstract sockets of this machine whose name begins so.
[[nodiscard]] std::vector<std::string> sockets_named(const std::string& begin);

[[nodiscard]] std::set<std::string> names_in_shared_memory();
/// What is new since `before` and nobody's: another program of this machine may use names there meanwhile.
[[nodiscard]] std::set<std::string> left_in_shared_memory(const std::set<std::string>& before);

}  // namespace tandem::fault

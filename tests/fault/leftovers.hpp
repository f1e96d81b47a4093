// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

namespace tandem::fault {

/// The lines of /proc/net/unix that contain `begin`: the abstract sockets of this machine with such names.
[[nodiscard]] std::vector<std::string> sockets_named(const std::string& begin);

[[nodiscard]] std::set<std::string> names_in_shared_memory();
/// Names that are new since `before` and that no process has mapped: other programs may use names there meanwhile.
[[nodiscard]] std::set<std::string> left_in_shared_memory(const std::set<std::string>& before);

}  // namespace tandem::fault

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

namespace tandem::fault {

/// The abstract sockets of this machine whose name begins so.
[[nodiscard]] std::vector<std::string> sockets_named(const std::string& begin);

[[nodiscard]] std::set<std::string> names_in_shared_memory();
/// What is new since `before` and nobody's: another program of this machine may use names there meanwhile.
[[nodiscard]] std::set<std::string> left_in_shared_memory(const std::set<std::string>& before);

}  // namespace tandem::fault

// SPDX-License-Identifier: Apache-2.0
// Runs commands as a user does; `demo` has tests of its own.
#pragma once

#include <gtest/gtest.h>
#include <string>

#include "support/processes.hpp"

namespace tandem::tools {

using testing::Outcome;

/// Runs `tandem ARGUMENTS` on the host; its stderr is the test's own.
inline Outcome tandem_command(const std::string& arguments, const std::string& environment = "") {
  return testing::run_command("env TANDEM_DEVICE=host TANDEM_TIMEOUT=60s TANDEM_PLAN_CACHE=none " + environment +
                              " timeout 120 " TANDEM_TEST_CLI " " + arguments);
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Tests of a command with the parameter as its number of ranks.
class OfRanks : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static std::string ranks() { return " -n " + std::to_string(GetParam()); }
};

}  // namespace tandem::tools

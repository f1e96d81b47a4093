// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/collective/plan_cache.hpp"

#include "support/devices.hpp"
#include "support/temporary_folder.hpp"

namespace tandem::testing {

/// Gives each test a folder of its own, with a plan cache.
class PlanCacheFolder : public OnEachDevice {
 protected:
  [[nodiscard]] std::string at(const std::string& name) const { return folder_.at(name); }
  [[nodiscard]] PlanCache cache() const { return PlanCache(at("plans")); }
  /// For ranks with the plan cache `path`, which each resolves in its own working directory if it is relative.
  [[nodiscard]] RankOptions reading(const std::string& path) const {
    RankOptions options;
    options.env.plan_cache = path;
    options.env.log = LogLevel::warn;
    options.env.log_file = at("log.%r");
    return options;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace tandem::testing

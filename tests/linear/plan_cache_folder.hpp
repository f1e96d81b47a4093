// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "tandem/collective/plan_cache.hpp"

#include "support/devices.hpp"

namespace tandem::testing {

/// A folder of its own for each test, with a plan cache.
class PlanCacheFolder : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    std::string folder = ::testing::TempDir() + "plan_cache.XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string at(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] PlanCache cache() const { return PlanCache(at("plans")); }
  /// Ranks that read `path`, each in a folder of its own where it is no absolute one.
  [[nodiscard]] RankOptions reading(const std::string& path) const {
    RankOptions options;
    options.env.plan_cache = path;
    options.env.log = LogLevel::warn;
    options.env.log_file = at("log.%r");
    return options;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/log.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

#include "tandem/base/error.hpp"

namespace tandem {
namespace {

TEST(Log, WritesWhatItsLevelIncludesWithItsRank) {
  const std::string pattern = ::testing::TempDir() + "tandem-log-%p-%r";
  const std::string path = ::testing::TempDir() + "tandem-log-" + std::to_string(::getpid()) + "-3";
  {
    const Log log(LogLevel::info, pattern, 3);
    EXPECT_TRUE(log.enabled(LogLevel::warn));
    EXPECT_FALSE(log.enabled(LogLevel::trace));
    log.write(LogLevel::warn, "seen {not a placeholder}");
    log.write(LogLevel::trace, "unseen");
  }
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  ::unlink(path.c_str());
  EXPECT_NE(text.str().find("[tandem] [rank 3] [warning] seen {not a placeholder}\n"), std::string::npos) << text.str();
  EXPECT_EQ(text.str().find("unseen"), std::string::npos);
}

TEST(Log, ADefaultOneIsSilent) {
  const Log log;
  EXPECT_FALSE(log.enabled(LogLevel::error));
  log.write(LogLevel::error, "nowhere");
}

TEST(Log, AFileThatCannotBeOpenedIsAnError) {
  EXPECT_THROW(Log(LogLevel::info, "/proc/no/such/folder/log", 0), InvalidArgument);
  const std::string folder = ::testing::TempDir() + "no_folder_of_this_test";
  EXPECT_THROW(Log(LogLevel::info, folder + "/log", 0), InvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/log.hpp"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <unistd.h>

#include "tandem/base/error.hpp"

namespace tandem {
namespace {

/// What a log of this level, of rank 3, has in its file after `write`.
std::string written(LogLevel level, const std::function<void(const Log&)>& write) {
  const std::string pattern = ::testing::TempDir() + "tandem-log-%p-%r";
  const std::string path = ::testing::TempDir() + "tandem-log-" + std::to_string(::getpid()) + "-3";
  write(Log(level, pattern, 3));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  ::unlink(path.c_str());
  return text.str();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Log, WritesWhatItsLevelIncludesWithItsRank) {
  const std::string text = written(LogLevel::info, [](const Log& log) {
    EXPECT_TRUE(log.enabled(LogLevel::warn));
    EXPECT_FALSE(log.enabled(LogLevel::trace));
    log.write(LogLevel::warn, "seen {not a placeholder}");
    log.write(LogLevel::trace, "unseen");
  });
  EXPECT_NE(text.find("[tandem] [rank 3] [warning] seen {not a placeholder}\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("unseen"), std::string::npos);
}

TEST(Log, WritesOnceWhatIsToBeSaidOnce) {
  const std::string text = written(LogLevel::warn, [](const Log& log) {
    log.write(LogLevel::warn, "the cache is damaged");
    for (int again = 0; again < 3; ++again) {
      log.write_once(LogLevel::warn, "the cache is damaged");
      log.write_once(LogLevel::warn, "so is the other one");
      log.write_once(LogLevel::info, "unseen");
    }
  });
  EXPECT_EQ(count(text, "the cache is damaged\n"), 2U) << text;
  EXPECT_EQ(count(text, "so is the other one\n"), 1U) << text;
  EXPECT_EQ(count(text, "unseen"), 0U) << text;
}

TEST(Log, ADefaultOneIsSilent) {
  const Log log;
  EXPECT_FALSE(log.enabled(LogLevel::error));
  log.write(LogLevel::error, "nowhere");
  log.write_once(LogLevel::error, "nowhere");
}

TEST(Log, AFileThatCannotBeOpenedIsAnError) {
  EXPECT_THROW(Log(LogLevel::info, "/proc/no/such/folder/log", 0), InvalidArgument);
  const std::string folder = ::testing::TempDir() + "no_folder_of_this_test";
  EXPECT_THROW(Log(LogLevel::info, folder + "/log", 0), InvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace tandem

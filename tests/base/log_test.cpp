// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/log.hpp"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <thread>
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

TEST(Log, BeginsEachLineOfATextAsItBeginsOthers) {
  const std::string text = written(LogLevel::info, [](const Log& log) {
    log.write(LogLevel::info, "two\n  lines\n");
    log.write(LogLevel::warn, "\nlast");
    log.write(LogLevel::info, "");
  });
  const std::string begin = "[tandem] [rank 3] [info] ";
  EXPECT_EQ(count(text, begin + "two\n"), 1U) << text;
  EXPECT_EQ(count(text, begin + "  lines\n"), 1U) << text;
  EXPECT_EQ(count(text, "[tandem] [rank 3] [warning] \n"), 1U) << text;
  EXPECT_EQ(count(text, "[tandem] [rank 3] [warning] last\n"), 1U) << text;
  EXPECT_EQ(count(text, begin + "\n"), 1U) << text;
  EXPECT_EQ(count(text, "\n"), 5U) << text;
}

TEST(Log, KeepsTheLinesOfATextTogether) {
  const std::string text = written(LogLevel::info, [](const Log& log) {
    const auto write = [&log](const std::string& name) {
      for (int i = 0; i < 200; ++i) log.write(LogLevel::info, name + " 1\n" + name + " 2");
    };
    std::thread other(write, "other");
    write("own");
    other.join();
  });
  std::istringstream lines(text);
  std::string first;
  std::string second;
  while (std::getline(lines, first) && std::getline(lines, second)) {
    const std::string name = first.substr(first.rfind(']'));
    ASSERT_EQ(second.substr(second.rfind(']')), name.substr(0, name.size() - 1) + "2") << text;
  }
}

TEST(Log, SaysOnceThatItCannotBeWritten) {
  ::testing::internal::CaptureStderr();
  {
    const Log log(LogLevel::info, "/dev/full", 3);
    for (int again = 0; again < 3; ++again) log.write(LogLevel::info, "lost");
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(text, "\n"), 1U) << text;
  EXPECT_EQ(count(text, "[rank 3] [error] the log lacks lines: "), 1U) << text;
  EXPECT_EQ(count(text, "/dev/full"), 1U) << text;
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

TEST(Log, AFilesNameMayHaveAPercentSignButNoUnknownPattern) {
  const std::string path = ::testing::TempDir() + "tandem-100%-" + std::to_string(::getpid());
  {
    const Log log(LogLevel::info, ::testing::TempDir() + "tandem-100%%-%p", 0);
  }
  EXPECT_TRUE(std::filesystem::remove(path));
  for (const char* unknown : {"%z", "%", "%%%", "%H"}) {
    try {
      const Log log(LogLevel::info, ::testing::TempDir() + "log" + unknown, 3);
      ADD_FAILURE() << unknown << " was taken";
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(count(error.what(), "rank 3"), 1U) << error.what();
      EXPECT_EQ(count(error.what(), "%h for the host"), 1U) << error.what();
    }
  }
}

}  // namespace
}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "memory/memory_left.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <string>

#include "support/temporary_folder.hpp"

namespace tandem::testing {
namespace {

/// A made-up file system root.
class MemoryLeftOf : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& content) const {
    const std::filesystem::path file = root() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content << "\n";
  }
  [[nodiscard]] std::filesystem::path root() const { return folder_.at("root"); }
  [[nodiscard]] MemoryLeft left() const { return memory_left(root()); }

 private:
  TemporaryFolder folder_;
};

TEST_F(MemoryLeftOf, ASystemThatSaysNothing) {
  EXPECT_EQ(left().bytes, std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(left().where, "this machine");
}

TEST_F(MemoryLeftOf, AMachine) {
  write("proc/meminfo", "MemTotal: 100 kB\nMemFree: 20 kB\nMemAvailable: 50 kB\nBuffers: 1 kB");
  EXPECT_EQ(left().bytes, 50U * 1024);
  write("proc/self/cgroup", "0::/");  // no limit at the root
  EXPECT_EQ(left().bytes, 50U * 1024);
  EXPECT_EQ(left().where, "this machine");
}

TEST_F(MemoryLeftOf, GroupsOfTheSecondVersion) {
  write("proc/meminfo", "MemAvailable: 1000 kB");
  write("proc/self/cgroup", "0::/above/own");
  write("sys/fs/cgroup/above/own/memory.max", "max");
  write("sys/fs/cgroup/above/own/memory.current", "3000");
  EXPECT_EQ(left().bytes, 1000U * 1024);
  write("sys/fs/cgroup/above/own/memory.max", "10000");
  EXPECT_EQ(left().bytes, 7000U);
  EXPECT_EQ(left().where, "this process's control group");
  // Inactive pages of the page cache can be reclaimed, so they count as free.
  write("sys/fs/cgroup/above/own/memory.stat", "anon 900\nfile 2000\ninactive_file 500\nactive_file 1500");
  EXPECT_EQ(left().bytes, 7500U);
  // The group with the least left decides.
  write("sys/fs/cgroup/above/memory.max", "20000");
  write("sys/fs/cgroup/above/memory.current", "19000");
  EXPECT_EQ(left().bytes, 1000U);
  write("sys/fs/cgroup/above/memory.current", "21000");  // usage may exceed the limit briefly
  EXPECT_EQ(left().bytes, 0U);
}

TEST_F(MemoryLeftOf, GroupsOfTheFirstVersion) {
  write("proc/meminfo", "MemAvailable: 1000 kB");
  write("proc/self/cgroup", "9:name=systemd:/\n4:cpuset,memory:/own\n0::/");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000");
  EXPECT_EQ(left().bytes, 1000U * 1024);
  write("sys/fs/cgroup/memory/own/memory.limit_in_bytes", "6000");
  write("sys/fs/cgroup/memory/own/memory.usage_in_bytes", "5000");
  write("sys/fs/cgroup/memory/own/memory.stat", "inactive_file 1\ntotal_inactive_file 2000");
  EXPECT_EQ(left().bytes, 3000U);
}

TEST_F(MemoryLeftOf, AContainerWhoseGroupHasANameFromOutside) {
  write("proc/meminfo", "MemAvailable: 1000 kB");
  write("proc/self/cgroup", "0::/docker/1234");
  write("sys/fs/cgroup/memory.max", "8000");
  write("sys/fs/cgroup/memory.current", "1000");
  EXPECT_EQ(left().bytes, 7000U);
}

TEST(MemoryLeft, IsSomethingHere) {
  EXPECT_GT(memory_left().bytes, 0U);
  EXPECT_LT(memory_left().bytes, std::numeric_limits<std::size_t>::max());
}

}  // namespace
}  // namespace tandem::testing

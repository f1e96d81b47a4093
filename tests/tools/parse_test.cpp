// SPDX-License-Identifier: Apache-2.0
#include "tools/parse.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <unistd.h>

#include "tandem/base/error.hpp"

#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "tools/bench.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

TEST(Parse, Integers) {
  EXPECT_EQ(parse_integer("-n", "1", 1, 64), 1);
  EXPECT_EQ(parse_integer("-n", "64", 1, 64), 64);
  EXPECT_EQ(parse_integer("--seed", "9223372036854775807", 0, std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<std::int64_t>::max());
  for (const char* wrong : {"", "0", "65", "-1", "1.5", "1x", " 1", "99999999999999999999"}) {
    EXPECT_THROW(static_cast<void>(parse_integer("-n", wrong, 1, 64)), InvalidArgument) << wrong;
  }
}

TEST(Parse, Numbers) {
  EXPECT_EQ(parse_number("--seconds", "0.5", 0.01, 3600), 0.5);
  EXPECT_EQ(parse_number("--seconds", "3600", 0.01, 3600), 3600);
  for (const char* wrong : {"", "0", "-1", "3600.5", "nan", "inf", "1s", " 1", "0,5"}) {
    EXPECT_THROW(static_cast<void>(parse_number("--seconds", wrong, 0.01, 3600)), InvalidArgument) << wrong;
  }
}

TEST(Parse, FilesToWrite) {
  const std::string folder = ::testing::TempDir() + "parse_test." + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const std::string file = folder + "/t.json";
  EXPECT_EQ(parse_output("--json", "-"), "-");
  EXPECT_EQ(parse_output("--json", file), file);
  EXPECT_FALSE(std::filesystem::exists(file));
  std::ofstream(file) << "older";
  EXPECT_EQ(parse_output("--json", file), file);
  const auto refusal = [](const std::string& path) {
    return testing::error_of<InvalidArgument>([&] { static_cast<void>(parse_output("--timeline", path)); });
  };
  testing::expect_says(refusal(folder + "/no/t.json"), {"--timeline is '", "there is no folder '" + folder + "/no'"});
  testing::expect_says(refusal(file + "/t.json"), {"there is no folder '" + file + "'", "a file that can be written"});
  testing::expect_says(refusal(folder), {"that is a folder"});
  testing::expect_says(refusal(folder + "/"), {"that is a folder"});
  testing::expect_says(refusal(""), {"--timeline is ''", "names none"});
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  if (::geteuid() != 0) testing::expect_says(refusal(file), {"it may not be written"});  // root may
  std::filesystem::remove_all(folder);
}

TEST(Parse, FoldersToWriteIn) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.at("t.json");
  const auto expect = [](const std::string& path) { expect_folder("--out", path, {"t.json"}); };
  EXPECT_NO_THROW(expect(folder.at("new/newer")));
  EXPECT_FALSE(std::filesystem::exists(folder.at("new"))) << "it is made by who writes";
  std::filesystem::create_directory(file);
  const auto refusal = [&](const std::string& path) {
    return testing::error_of<InvalidArgument>([&] { expect(path); });
  };
  testing::expect_says(refusal(""), {"--out is ''", "names none", "a folder that can be written"});
  testing::expect_says(refusal(folder.at("")), {"its 't.json' may not be written"});
  std::filesystem::remove(file);
  std::ofstream(file) << "older";
  EXPECT_NO_THROW(expect(folder.at("")));
  testing::expect_says(refusal(file), {"'" + file + "' is no folder"});
  testing::expect_says(refusal(file + "/deeper"), {"'" + file + "' is no folder"});
  std::filesystem::permissions(folder.at(""), std::filesystem::perms::owner_read);
  if (::geteuid() != 0) testing::expect_says(refusal(folder.at("")), {"nothing may be written in"});  // root may
  std::filesystem::permissions(folder.at(""), std::filesystem::perms::owner_all);
}

TEST(Parse, Bytes) {
  EXPECT_EQ(parse_bytes("-b", "0"), 0);
  EXPECT_EQ(parse_bytes("-b", "512"), 512);
  EXPECT_EQ(parse_bytes("-b", "64K"), 64 << 10);
  EXPECT_EQ(parse_bytes("-b", "64kB"), 64 << 10);
  EXPECT_EQ(parse_bytes("-b", "1.5K"), 1536);
  EXPECT_EQ(parse_bytes("-b", "2G"), std::int64_t{2} << 30);
  for (const char* wrong : {"", "K", "-1", "1Q", "1KK", "0.3", "1e30", "nan"}) {
    EXPECT_THROW(static_cast<void>(parse_bytes("-b", wrong)), InvalidArgument) << wrong;
  }
  for (const std::int64_t bytes : {0L, 1L, 1023L, 1024L, 1536L, 3L << 20, 5L << 30}) {
    EXPECT_EQ(parse_bytes("-b", bytes_to_string(bytes)), bytes);
  }
}

TEST(Parse, Shapes) {
  EXPECT_EQ(parse_shape("--shape", "512,1024,256"), (Shape{512, 1024, 256}));
  EXPECT_EQ(parse_shape("--shape", "0,1,2147483648"), (Shape{0, 1, 2147483648}));
  for (const char* wrong : {"", "1", "1,2", "1,2,", "1,2,3,4", "1,-2,3", "1;2;3", "1,2,2147483649", "a,b,c"}) {
    EXPECT_THROW(static_cast<void>(parse_shape("--shape", wrong)), InvalidArgument) << wrong;
  }
}

TEST(Bench, SizesGoByAFactorOrByAStep) {
  const auto sizes = [](std::int64_t begin, std::int64_t end, std::int64_t factor, std::int64_t step) {
    BenchOptions options;
    options.begin = begin;
    options.end = end;
    options.factor = factor;
    options.step = step;
    return bench_sizes(options);
  };
  EXPECT_EQ(sizes(1024, 8192, 2, 0), (std::vector<std::int64_t>{1024, 2048, 4096, 8192}));
  EXPECT_EQ(sizes(1000, 5000, 3, 0), (std::vector<std::int64_t>{1000, 3000}));
  EXPECT_EQ(sizes(0, 300, 2, 100), (std::vector<std::int64_t>{0, 100, 200, 300}));
  EXPECT_EQ(sizes(0, 300, 2, 0), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(sizes(std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max(), 4, 0).size(), 1U);
}

TEST(Bench, MedianAndPercentile) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) hundred.push_back(i);
  EXPECT_EQ(percentile(hundred, 99), 99);
  EXPECT_EQ(percentile({7}, 99), 7);
}

}  // namespace
}  // namespace tandem::tools

// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/env.hpp"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>

#include "tandem/base/error.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

Env read(const std::map<std::string, std::string>& variables) {
  return Env::from([&](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  });
}

TEST(Env, HasDefaults) {
  const Env env = read({});
  EXPECT_EQ(env.log, LogLevel::warn);
  EXPECT_EQ(env.timeout, 60s);
  EXPECT_EQ(env.device, DeviceChoice::automatic);
  EXPECT_FALSE(env.link);
  EXPECT_EQ(env.plan_cache, "");
}

TEST(Env, KeepsThePlanCacheInTheUsersFolder) {
  EXPECT_EQ(read({{"HOME", "/me"}}).plan_cache, "/me/.cache/tandem/plans");
  EXPECT_EQ(read({{"HOME", "/me"}, {"XDG_CACHE_HOME", "/var/me"}}).plan_cache, "/var/me/tandem/plans");
  EXPECT_EQ(read({{"HOME", "/me"}, {"XDG_CACHE_HOME", "here"}}).plan_cache, "/me/.cache/tandem/plans");
  EXPECT_EQ(read({{"HOME", "/me"}, {"TANDEM_PLAN_CACHE", "here"}}).plan_cache, "here");
  EXPECT_EQ(read({{"HOME", "/me"}, {"TANDEM_PLAN_CACHE", "none"}}).plan_cache, "");
}

TEST(Env, ReadsEachVariable) {
  const Env env = read({{"TANDEM_LOG", "info"},
                        {"TANDEM_TIMEOUT", "250ms"},
                        {"TANDEM_CHECK", "runs"},
                        {"TANDEM_DEVICE", "host"},
                        {"TANDEM_LINK", "20us,1.5GB/s"},
                        {"TANDEM_GEMM", "builtin"},
                        {"TANDEM_GEMM_THREADS", "3"},
                        {"TANDEM_TRACE", "/tmp/trace.json"},
                        {"TANDEM_LOG_FILE", "/tmp/%r"}});
  EXPECT_EQ(env.log, LogLevel::info);
  EXPECT_EQ(env.timeout, 250ms);
  EXPECT_EQ(env.check, RunCheck::runs);
  EXPECT_EQ(env.device, DeviceChoice::host);
  EXPECT_EQ(env.link->latency, 20us);
  EXPECT_EQ(env.link->bytes_per_second, 1.5e9);
  EXPECT_EQ(env.gemm, GemmChoice::builtin);
  EXPECT_EQ(name(env.check), "runs");
  EXPECT_EQ(name(env.device), "host");
  EXPECT_EQ(name(env.gemm), "builtin");
  EXPECT_EQ(env.gemm_threads, 3);
  EXPECT_EQ(env.trace, "/tmp/trace.json");
  EXPECT_EQ(env.log_file, "/tmp/%r");
  EXPECT_EQ(read({{"TANDEM_TIMEOUT", "90"}}).timeout, 90s);
  EXPECT_EQ(read({{"TANDEM_TIMEOUT", "5m"}}).timeout, 5min);
  EXPECT_EQ(read({{"TANDEM_TIMEOUT", "2h"}}).timeout, 2h);
}

TEST(Env, TakesOpenMPsThreadsUnlessItHasItsOwn) {
  EXPECT_EQ(read({}).gemm_threads, 0);
  EXPECT_EQ(read({{"OMP_NUM_THREADS", "4"}}).gemm_threads, 4);
  EXPECT_EQ(read({{"OMP_NUM_THREADS", "4,2"}}).gemm_threads, 4);
  EXPECT_EQ(read({{"OMP_NUM_THREADS", "4"}, {"TANDEM_GEMM_THREADS", "auto"}}).gemm_threads, 4);
  EXPECT_EQ(read({{"OMP_NUM_THREADS", "4"}, {"TANDEM_GEMM_THREADS", "2"}}).gemm_threads, 2);
  // Complaining about malformed values is left to OpenMP.
  for (const char* malformed : {"", "four", "0", "-1", "4x", "99999999999"}) {
    EXPECT_EQ(read({{"OMP_NUM_THREADS", malformed}}).gemm_threads, 0) << malformed;
  }
}

TEST(Env, RefusesMalformedValuesWithTheirNameAndWhatIsAllowed) {
  const std::map<std::string, std::string> malformed{
      {"TANDEM_LOG", "loud"},  {"TANDEM_TIMEOUT", "soon"}, {"TANDEM_DEVICE", "tpu"},
      {"TANDEM_LINK", "20us"}, {"TANDEM_GEMM", "mkl"},     {"TANDEM_GEMM_THREADS", "0"},
      {"TANDEM_CHECK", "1"},   {"TANDEM_LOG_FILE", "%z"},  {"TANDEM_TRACE", "trace.%"},
  };
  for (const auto& [name, value] : malformed) {
    try {
      static_cast<void>(read({{name, value}}));
      ADD_FAILURE() << name << "=" << value << " was taken";
    } catch (const InvalidArgument& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with(name + " is '" + value + "'; allowed: ")) << text;
    }
  }
  for (const char* timeout : {"0", "-1", "nan", "inf", "1e99", "10 s", "s"}) {
    EXPECT_THROW(static_cast<void>(read({{"TANDEM_TIMEOUT", timeout}})), InvalidArgument) << timeout;
  }
  for (const char* threads : {"all", "-1", "1025", "2 ", "99999999999"}) {
    EXPECT_THROW(static_cast<void>(read({{"TANDEM_GEMM_THREADS", threads}})), InvalidArgument) << threads;
  }
  for (const char* link : {"", ",", "1us,", ",1GB/s", "1us,0GB/s", "1,1GB/s", "1us,1GB/s,", "-1us,1GB/s",
                           "1e300s,1GB/s", "1us,1e308GB/s", "61s,1GB/s", "1us,0.9KB/s"}) {
    EXPECT_THROW(static_cast<void>(parse_link(link)), InvalidArgument) << link;
  }
}

TEST(Env, TheSlowestLinkIsTaken) {
  const LinkOptions link = parse_link("60s,1000B/s");
  EXPECT_EQ(link.latency, std::chrono::seconds(60));
  EXPECT_EQ(link.bytes_per_second, 1000.0);
}

TEST(Env, AnUnknownVariableOfOursIsAnError) {
  ASSERT_EQ(::setenv("TANDEM_TIMEOUTT", "1", 1), 0);
  try {
    static_cast<void>(Env::from_process());
    ADD_FAILURE() << "TANDEM_TIMEOUTT was taken";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("TANDEM_TIMEOUTT"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("TANDEM_TIMEOUT,"), std::string::npos);
  }
  ::unsetenv("TANDEM_TIMEOUTT");
  EXPECT_NO_THROW(static_cast<void>(Env::from_process()));
}

TEST(Env, VariablesOfAnInstallationAreLetPass) {
  for (const char* name : {"TANDEM_ROOT", "TANDEM_HOME", "TANDEM_DIR", "TANDEM_PREFIX", "TANDEM_VERSION"}) {
    ASSERT_EQ(::setenv(name, "/opt/tandem", 1), 0);
    EXPECT_NO_THROW(static_cast<void>(Env::from_process())) << name;
    ::unsetenv(name);
  }
}

// docs/environment.md must contain this table. To update it, copy the table that a failure prints into the page.
TEST(Env, ItsTableIsTheOneOfTheDocuments) {
  std::ifstream page(TANDEM_SOURCE_DIR "/docs/environment.md");
  std::ostringstream text;
  text << page.rdbuf();
  EXPECT_NE(text.str().find(Env::table()), std::string::npos) << Env::table();
}

}  // namespace
}  // namespace tandem

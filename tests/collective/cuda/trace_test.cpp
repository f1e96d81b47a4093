// SPDX-License-Identifier: Apache-2.0
// A trace tells what runs a collective: copy engines and SMs have separate lanes when it is drawn.
#include <cstdint>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "tandem/collective/all_gather.hpp"
#include "tandem/device/graph.hpp"
#include "tandem/device/stream.hpp"

#include "collective/support.hpp"
#include "support/devices.hpp"
#include "support/files.hpp"

namespace tandem::testing {
namespace {

class TraceOfCollectives : public OnEachDevice {};

TEST_P(TraceOfCollectives, TellsCopiesFromKernels) {
  const std::string path = ::testing::TempDir() + "tandem-collectives-" + std::to_string(::getpid()) + ".json";
  for (const std::string algorithm : {"push", "direct_kernel"}) {
    RankOptions options;
    options.env.trace = path;
    const auto gather = [&](World& world) {
      constexpr std::int64_t count = 1 << 20;
      const SymmetricTensor tensor = symmetric(world.team(), {2 * count}, f32);
      AllGather plan(world.team(), {.count = count, .dtype = f32}, {.algorithm = algorithm});
      const Stream stream(world.device());
      plan(tensor, stream);
      world.team().synchronize(stream);
      world.team().barrier();
    };
    on(2, gather, options);
    const std::string text = contents_of(path);
    const bool copies = text.find(R"("cat":"communication")") != std::string::npos;
    const bool kernels = text.find(R"("cat":"exchange")") != std::string::npos;
    EXPECT_EQ(copies, algorithm == "push") << text;
    EXPECT_EQ(kernels, algorithm == "direct_kernel") << text;
  }
  std::filesystem::remove(path);
}

TEST_P(TraceOfCollectives, SaysOnceThatGraphsAreNotInIt) {
  const std::string path = ::testing::TempDir() + "tandem-graphs-" + std::to_string(::getpid());
  RankOptions options;
  options.env.trace = path + ".json";
  options.env.log = LogLevel::warn;
  options.env.log_file = path + ".%r";
  const auto gather = [&](World& world) {
    const SymmetricTensor tensor = symmetric(world.team(), {2 * 100}, f32);
    AllGather plan(world.team(), {.count = 100, .dtype = f32});
    const Stream stream(world.device());
    for (int captures = 0; captures < 2; ++captures) {
      Graph graph(world.device(), stream, [&] { plan(tensor, stream); });
      graph.launch(stream);
      world.team().synchronize(stream);
    }
    world.team().barrier();
  };
  on(2, gather, options);
  for (const std::string rank : {"0", "1"}) {
    const std::string text = contents_of(path + "." + rank);
    const std::size_t first = text.find("not in the trace");
    EXPECT_NE(first, std::string::npos) << text;
    EXPECT_EQ(text.find("not in the trace", first + 1), std::string::npos) << text;
    std::filesystem::remove(path + "." + rank);
  }
  std::filesystem::remove(path + ".json");
}

INSTANTIATE_TEST_SUITE_P(Device, TraceOfCollectives, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing

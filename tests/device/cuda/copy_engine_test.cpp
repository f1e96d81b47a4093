// SPDX-License-Identifier: Apache-2.0
// Copies that are to overlap with compute must need none of the multiprocessors (SMs) that compute.
#include <array>
#include <chrono>
#include <cstddef>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "tandem/device/signal.hpp"

#include "device/on_device.hpp"
#include "support/cuda/occupied_gpu.hpp"

namespace tandem::testing {
namespace {

constexpr std::size_t copied_bytes = std::size_t{8} << 20;
constexpr std::chrono::seconds limit{5};

class CopyEngineTest : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    content_ = OnDevice::random_bytes(copied_bytes);
    source_ = upload(content_);
    copied_ = memory(copied_bytes);
  }

  /// Expects what `body` queues to complete while no kernel can get a multiprocessor.
  template <typename Body> void expect_none_taken(const Body& body) {
    const Stream copies(device(), StreamPriority::high);
    const Stream kernels(device());
    const Buffer sums = memory(copied_bytes);
    const std::array<const void*, 1> sources{source_.data()};
    const std::array<void*, 1> destinations{sums.data()};
    const auto add = [&] {
      device().reduce(kernels,
                      {.sources = sources, .destinations = destinations, .count = 4, .dtype = u8, .out_dtype = u8});
    };
    body(copies);  // the first use of each operation loads its code
    add();
    copies.synchronize();
    kernels.synchronize();
    device().fill(copies, copied_.data(), std::byte{0xff}, copied_bytes);
    copies.synchronize();
    {
      const OccupiedGpu occupied(device().id().index, limit);
      ASSERT_TRUE(occupied.is_taken());
      add();
      body(copies);
      const auto begin = std::chrono::steady_clock::now();
      while (!copies.query() && std::chrono::steady_clock::now() - begin < limit) std::this_thread::yield();
      EXPECT_TRUE(occupied.is_taken()) << "the copies waited for multiprocessors";
      EXPECT_FALSE(kernels.query()) << "a kernel found a place: nothing is shown";
    }
    copies.synchronize();
    kernels.synchronize();
    EXPECT_EQ(download<std::byte>(copied_), content_);
  }

  std::vector<std::byte> content_;
  Buffer source_;
  Buffer copied_;
};

TEST_P(CopyEngineTest, ABatchTakesNoMultiprocessor) {
  constexpr std::size_t first = copied_bytes / 3;
  expect_none_taken([&](const Stream& stream) {
    device().copy_batch(stream, std::array{Copy{.dst = copied_.data(), .src = source_.data(), .bytes = first},
                                           Copy{.dst = copied_.data_as<std::byte>() + first,
                                                .src = source_.data_as<std::byte>() + first,
                                                .bytes = copied_bytes - first}});
  });
}

TEST_P(CopyEngineTest, NorDoesABatchOfOneOnThisGpu) {
  for (const Path path : {Path::local, Path::link}) {  // a peer's memory on this same GPU is `link`, too
    expect_none_taken([&](const Stream& stream) {
      device().copy_batch(
          stream, std::array{Copy{.dst = copied_.data(), .src = source_.data(), .bytes = copied_bytes, .path = path}});
    });
    if (HasFatalFailure()) return;
  }
}

TEST_P(CopyEngineTest, NorDoesASignalThatIsCounted) {
  std::vector<SignalWord> counts(2);
  counts[0].put = 7;
  const Buffer words = upload(counts);
  const SignalPut put{.mine = words.data_as<SignalWord>(), .theirs = words.data_as<SignalWord>() + 1, .counted = true};
  expect_none_taken([&](const Stream& stream) {
    device().copy_batch(stream, std::array{Copy{.dst = copied_.data(), .src = source_.data(), .bytes = copied_bytes}});
    device().signal(stream, {&put, 1});
  });
  EXPECT_EQ(download<SignalWord>(words)[1].value, 7U);
}

INSTANTIATE_TEST_SUITE_P(Gpu, CopyEngineTest, ::testing::Values(DeviceType::cuda), type_name);

}  // namespace
}  // namespace tandem::testing

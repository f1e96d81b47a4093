// SPDX-License-Identifier: Apache-2.0
// A GEMM that leaves multiprocessors to others must do so until it ends.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "device/on_device.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

class LeaveSms : public OnDevice {};

TEST_P(LeaveSms, AKernelThatComesLaterRunsBesideTheProduct) {
  constexpr int left = 16;
  // Some 3 ms on an H100: the GEMM begins well before the sum is queued, and ends well after it.
  constexpr std::int64_t n = 8192;
  constexpr std::int64_t k = 16384;
  constexpr auto it_has_begun = 1ms;
  constexpr std::size_t count = std::size_t{1} << 16;
  const auto gemm =
      device().gemm({.m = n, .n = n, .k = k, .transpose_b = true, .dtype = bf16, .out_dtype = bf16, .leave_sms = left});
  const Buffer a = memory(n * k * size_of(bf16));
  const Buffer b = memory(n * k * size_of(bf16));
  const Buffer d = memory(n * n * size_of(bf16));
  const Stream products(device());
  const Stream sums(device());
  device().fill(products, a.data(), std::byte{0}, a.bytes());
  device().fill(products, b.data(), std::byte{0}, b.bytes());
  const std::vector<float> values = random_values<float>(random(), count);
  const Buffer source = upload(values);
  const Buffer sum = memory(source.bytes());
  const auto add = [&] {
    const std::array<const void*, 1> sources{source.data()};
    const std::array<void*, 1> destinations{sum.data()};
    device().reduce(sums, {.sources = sources,
                           .destinations = destinations,
                           .count = static_cast<std::int64_t>(count),
                           .dtype = f32,
                           .out_dtype = f32,
                           .most_blocks = left});
  };
  const GemmOperands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  gemm->run(products, operands);  // the first use of each operation loads its code
  add();
  products.synchronize();
  sums.synchronize();

  gemm->run(products, operands);
  std::this_thread::sleep_for(it_has_begun);
  ASSERT_FALSE(products.query()) << "the product is too short: nothing is shown";
  add();
  sums.synchronize();
  EXPECT_FALSE(products.query()) << "the sum waited for the product to end";
  products.synchronize();
  EXPECT_EQ(download<float>(sum), values);
}

INSTANTIATE_TEST_SUITE_P(Gpu, LeaveSms, ::testing::Values(DeviceType::cuda), type_name);

}  // namespace
}  // namespace tandem::testing

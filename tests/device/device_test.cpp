// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/device.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <initializer_list>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/buffer.hpp"

#include "device/on_device.hpp"
#include "device/registered.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

class DeviceTest : public OnDevice {};

TEST_P(DeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device().id(), (DeviceId{GetParam(), 0}));
  EXPECT_FALSE(device().describe().empty());
  EXPECT_TRUE(why_no_device(GetParam()).empty());
  const CostTable costs = device().costs();
  EXPECT_GT(costs.gemm_flops_per_second, 0);
  EXPECT_GT(costs.gemm_f32_flops_per_second, 0);
  EXPECT_GE(costs.gemm_tf32_flops_per_second, costs.gemm_f32_flops_per_second);
  EXPECT_GT(costs.link_bytes_per_second, 0);
  EXPECT_GT(costs.memory_bytes_per_second, 0);
  EXPECT_EQ(costs.copies_cost_compute, on_host());
}

TEST_P(DeviceTest, GivesMemory) {
  for (const std::size_t bytes : {1U, 100U, 5'000'000U}) {
    void* const memory = device().allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
    const std::vector<std::byte> data = random_bytes(bytes);
    std::vector<std::byte> back(bytes);
    device().upload(memory, data.data(), bytes);
    device().download(back.data(), memory, bytes);
    EXPECT_EQ(back, data);
    device().deallocate(memory);
  }
}

TEST_P(DeviceTest, AMovedBufferOwnsNothing) {
  Buffer given(device().shared_from_this(), 128);
  void* const memory = given.data();
  Buffer taking(device().shared_from_this(), 64);
  taking = std::move(given);
  EXPECT_EQ(taking.data(), memory);
  EXPECT_EQ(taking.bytes(), 128U);
  EXPECT_EQ(given.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(given.bytes(), 0U);
}

TEST_P(DeviceTest, ABufferShowsPartsOfItsMemoryAsTensors) {
  const Buffer memory(device_, 100);
  for (const DType dtype : {f32, f16, f64, u8, f8e5m2}) {
    for (const std::size_t offset : {std::size_t{0}, std::size_t{16}}) {
      const TensorView view = memory.view({3, 2}, dtype, offset);
      EXPECT_EQ(view.data(), memory.data_as<std::byte>() + offset);
      EXPECT_EQ(view.sizes(), (Dims{3, 2}));
      EXPECT_EQ(view.dtype(), dtype);
      EXPECT_EQ(view.device(), device().id());
      EXPECT_TRUE(view.is_dense());
    }
  }
  EXPECT_EQ(memory.view({25}, f32).bytes(), 100U);
  EXPECT_EQ(memory.view({}, f32, 96).numel(), 1);
  EXPECT_EQ(memory.view({0, 7}, f32, 100).numel(), 0);
  EXPECT_EQ(Buffer(device_, 0).view({0}, f32).device(), device().id());
}

TEST_P(DeviceTest, ABufferRefusesViewsThatAreNotItsOwn) {
  const Buffer memory(device_, 100);
  const auto refuses = [](const Buffer& buffer, const Dims& sizes, DType dtype, std::size_t offset,
                          std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { static_cast<void>(buffer.view(sizes, dtype, offset)); }, parts);
  };
  const std::string here = to_string(device().id());
  refuses(memory, {26}, f32, 0, {"f32[26] at byte 0 takes 104 bytes", here, "its 100 bytes"});
  refuses(memory, {25}, f32, 4, {"f32[25] at byte 4", "its 100 bytes"});
  refuses(memory, {0}, u8, 101, {"u8[0] at byte 101", "its 100 bytes"});
  refuses(memory, {1}, u8, std::numeric_limits<std::size_t>::max(), {"its 100 bytes"});
  refuses(memory, {std::int64_t{1} << 62}, f64, 0, {"does not fit in 64 bits"});
  refuses(memory, {-1}, f32, 0, {"negative"});
  refuses(memory, {4}, f32, 6, {"f32[4] was asked for at byte 6", here, "multiples of the dtype's 4 bytes"});
  refuses(memory, {4}, static_cast<DType>(77), 0, {"77"});
  refuses(Buffer(), {0}, f32, 0, {"never made", "moved from"});
}

TEST_P(DeviceTest, CopiesTheElementsOfATensor) {
  for (const DType dtype : {f32, f16, bf16, f64, i32, i64, u8}) {
    with_storage(dtype, [&](auto zero) {
      using T = decltype(zero);
      const Buffer memory(device_, 6 * sizeof(T));
      const TensorView tensor = memory.view({2, 3}, dtype);
      std::vector<T> values;
      for (int i = 1; i <= 6; ++i) values.push_back(static_cast<T>(static_cast<float>(i)));
      device().upload(tensor, values);
      const auto equals = [](T value, int number) { return static_cast<float>(value) == static_cast<float>(number); };
      const std::vector<T> back = device().template download<T>(tensor);
      ASSERT_EQ(back.size(), 6U);
      for (int i = 1; i <= 6; ++i) EXPECT_TRUE(equals(back[static_cast<std::size_t>(i) - 1], i)) << name(dtype);
      device().fill(tensor.narrow(0, 1, 1), values[0]);
      const std::vector<T> row = device().template download<T>(tensor.narrow(0, 1, 1));
      EXPECT_TRUE(std::ranges::all_of(row, [&](T value) { return equals(value, 1); })) << name(dtype);
      EXPECT_TRUE(equals(device().template download<T>(tensor)[2], 3)) << name(dtype);
    });
  }
  const Buffer memory(device_, 4);
  const TensorView bytes = memory.view({4}, f8e4m3);
  device().upload(bytes, std::vector<std::uint8_t>{1, 2, 3, 255});
  EXPECT_EQ(device().download<std::uint8_t>(bytes), (std::vector<std::uint8_t>{1, 2, 3, 255}));
  EXPECT_TRUE(device().download<std::uint8_t>(bytes.narrow(0, 4, 0)).empty());
}

TEST_P(DeviceTest, RefusesValuesThatATensorDoesNotHave) {
  const Buffer memory(device_, 24);
  const DeviceId id = device().id();
  const TensorView tensor = memory.view({2, 3}, f32);
  const std::vector<float> values(6, 1.0F);
  const std::string shown = to_string(tensor);
  expect_error<InvalidArgument>([&] { device().upload(tensor, std::vector<float>(5)); },
                                {"upload to " + shown, "5 values for its 6 elements"});
  expect_error<InvalidArgument>([&] { device().upload(tensor, std::vector<std::int32_t>(6)); },
                                {shown, "the values are i32; allowed is the type that stores f32"});
  expect_error<InvalidArgument>([&] { static_cast<void>(device().download<double>(tensor)); },
                                {"download from " + shown, "the values are f64"});
  const TensorView columns(memory.data(), {2, 2}, {3, 1}, f32, id);
  expect_error<InvalidArgument>([&] { device().fill(columns, 1.0F); }, {"its elements are not contiguous"});
  const TensorView elsewhere(memory.data(), {2, 3}, f32, {id.type, id.index + 1});
  expect_error<InvalidArgument>([&] { device().upload(elsewhere, values); }, {"the tensor is on another device"});
}

// As when an exception leaves the scope of a buffer that a run uses.
TEST_P(DeviceTest, FreesMemoryBehindTheWorkThatUsesIt) {
  constexpr std::size_t bytes = 8 << 20;  // so much is given back to the system when it is freed
  const std::vector<std::byte> data = random_bytes(bytes);
  const Buffer kept(device_, bytes);
  const Stream stream(device());
  const Stream idle(device());
  {
    const Buffer freed(device_, bytes);
    device().upload(freed.data(), data.data(), bytes);
    device().launch(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    device().copy(stream, {.dst = kept.data(), .src = freed.data(), .bytes = bytes});
  }
  const Buffer other(device_, bytes);
  device().upload(other.data(), std::vector<std::byte>(bytes).data(), bytes);
  stream.synchronize();
  std::vector<std::byte> back(bytes);
  device().download(back.data(), kept.data(), bytes);
  EXPECT_TRUE(back == data);
}

TEST_P(DeviceTest, WritesRegisteredMemory) {
  const Registered<unsigned char> pages(device_, 8192);
  Stream stream(device());
  device().fill(stream, pages.data(), std::byte{7}, 8192);
  stream.synchronize();
  for (int i = 0; i < 8192; ++i) ASSERT_EQ(pages.data()[i], 7);
}

TEST_P(DeviceTest, ThrowsWhenMemoryIsShort) {
  EXPECT_THROW(static_cast<void>(device().allocate(std::size_t{1} << 60)), OutOfMemory);
}

TEST_P(DeviceTest, SynchronizesForAsLongAsAClockCanCount) {
  const Stream stream(device());
  device().launch(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  EXPECT_FALSE(device().synchronize_for(std::chrono::milliseconds(1)));
  EXPECT_TRUE(device().synchronize_for(std::chrono::milliseconds::max()));
  EXPECT_TRUE(stream.query());
}

TEST_P(DeviceTest, RefusesAnIndexOutOfRange) {
  EXPECT_THROW(static_cast<void>(open_device({GetParam(), device_count(GetParam())})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(open_device({GetParam(), -1})), InvalidArgument);
}

TANDEM_ON_EACH_DEVICE(DeviceTest);

TEST(OpenDevice, SaysWhyThereIsNoCuda) {
  if (device_count(DeviceType::cuda) != 0) GTEST_SKIP() << "there is CUDA";
  const std::string why = why_no_device(DeviceType::cuda);
  EXPECT_FALSE(why.empty());
  try {
    static_cast<void>(open_device({DeviceType::cuda, 0}));
    FAIL() << "opened a CUDA device";
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

// Otherwise every GPU test would be skipped, and the run would pass without testing anything.
TEST(OpenDevice, FindsAGpuWhereThereIsToBeOne) {
  const char* const needed = std::getenv("TANDEM_TEST_NEEDS_GPU");
  if (needed == nullptr || std::strcmp(needed, "1") != 0) GTEST_SKIP() << "TANDEM_TEST_NEEDS_GPU is not 1";
  EXPECT_GT(device_count(DeviceType::cuda), 0) << why_no_device(DeviceType::cuda);
}

TEST(OpenDevice, NamesTheCudaDriverIfThatIsMissing) {
  if (device_count(DeviceType::cuda) != 0) GTEST_SKIP() << "there is CUDA";
  const std::string why = why_no_device(DeviceType::cuda);
#if defined(TANDEM_WITH_CUDA)
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed, as in the library
  EXPECT_EQ(why.starts_with("libcuda.so.1 was not found ("), driver == nullptr) << why;
#else
  EXPECT_EQ(why, "built without CUDA");
#endif
}

TEST(OpenDevice, RefusesTheHostsOptionsForCuda) {
  EXPECT_THROW(
      static_cast<void>(open_device({DeviceType::cuda, 0}, {.link = LinkOptions{std::chrono::microseconds(1), 1e9}})),
      InvalidArgument);
  EXPECT_THROW(static_cast<void>(open_device({DeviceType::cuda, 0}, {.gemm = GemmChoice::builtin})), InvalidArgument);
}

TEST(OpenDevice, RefusesOptionsThatNoDeviceTakes) {
  using namespace std::chrono_literals;
  const auto refused = [](const DeviceOptions& options, const std::string& given, const std::string& allowed) {
    expect_error<InvalidArgument>([&] { static_cast<void>(open_device({}, options)); },
                                  {"device host", given, allowed});
  };
  refused({.gemm_threads = -1}, "-1 threads", "0 to 1024");
  refused({.gemm_threads = 1025}, "1025 threads", "0 to 1024");
  refused({.ranks = 0}, "0 ranks", "1 and more");
  refused({.gemm = static_cast<GemmChoice>(9)}, "number 9", "0 to 2");
  constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
  for (const LinkOptions& link : {LinkOptions{-5ns, 1e9}, LinkOptions{24h, 1e9}, LinkOptions{1us, -1e9},
                                  LinkOptions{1us, 1e-9}, LinkOptions{1us, not_a_number}}) {
    refused({.link = link}, "a link of", "0 to 60 s");
  }
}

TEST(OpenDevice, DescribesTheGemmThatRuns) {
  const std::string asked = open_device({}, {.gemm = GemmChoice::builtin})->describe();
  EXPECT_NE(asked.find("GEMM by built-in kernels (as asked)"), std::string::npos) << asked;
  const std::string found = open_device({})->describe();
  const bool known = found.find("GEMM by oneDNN") != std::string::npos || found.find("no oneDNN") != std::string::npos;
  EXPECT_TRUE(known) << found;
}

}  // namespace
}  // namespace tandem::testing

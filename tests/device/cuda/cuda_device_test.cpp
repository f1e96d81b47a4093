// SPDX-License-Identifier: Apache-2.0
// Errors that only CUDA can have. The other tests, of what every device must do, run on CUDA, too.
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/gpu_clock.hpp"
#include "tandem/device/gpu_link.hpp"

#include "device/with_control.hpp"
#include "support/cuda/captured_graph.hpp"

namespace tandem::testing {
namespace {

class CudaDeviceTest : public WithControl {
 protected:
  [[nodiscard]] static cudaStream_t native(StreamRef stream) {
    return static_cast<cudaStream_t>(stream.native_handle());
  }
};

/// One operation of each kind, and checks of their results.
class Everything {
 public:
  static constexpr std::int64_t n = 96;
  static constexpr std::uint16_t bf16_one = 0x3F80;
  static constexpr std::uint16_t bf16_two = 0x4000;

  Everything(const std::shared_ptr<Device>& device, std::mt19937_64& random) : device_(*device) {
    const auto elements = static_cast<std::size_t>(n * n);
    values_ = random_values<float>(random, elements);
    std::vector<float> identity(elements);
    for (std::size_t i = 0; i < elements; i += static_cast<std::size_t>(n) + 1) identity[i] = 1;
    for (Buffer* buffer :
         {&source_, &identity_, &copied_, &batched_, &strided_, &filled_, &reduced_, &mapped_, &product_}) {
      *buffer = Buffer(device, elements * sizeof(float));
    }
    sums_ = Buffer(device, static_cast<std::size_t>(n) * sizeof(float));
    words_ = Buffer(device, 2 * sizeof(SignalWord));
    device->upload(source_.data(), values_.data(), source_.bytes());
    device->upload(identity_.data(), identity.data(), identity_.bytes());
    const std::array<SignalWord, 2> none{};
    device->upload(words_.data(), none.data(), sizeof none);
    gemm_ = device->gemm({.m = n, .n = n, .k = n});
    std::vector<std::uint16_t> narrow_identity(elements);
    for (std::size_t i = 0; i < elements; i += static_cast<std::size_t>(n) + 1) narrow_identity[i] = bf16_one;
    narrow_identity_ = Buffer(device, elements * sizeof(std::uint16_t));
    device->upload(narrow_identity_.data(), narrow_identity.data(), narrow_identity_.bytes());
    added_ = Buffer(device, narrow_identity_.bytes());
    adding_gemm_ = device->gemm({.m = n, .n = n, .k = n, .dtype = bf16, .out_dtype = bf16});
  }

  void queue(StreamRef stream, WaitControl* control) {
    constexpr auto row = static_cast<std::size_t>(n) * sizeof(float);
    device_.copy(stream, {.dst = copied_.data(), .src = source_.data(), .bytes = source_.bytes()});
    const std::size_t half = source_.bytes() / 2;
    const std::array<Copy, 2> halves{
        Copy{.dst = batched_.data(), .src = source_.data(), .bytes = half},
        Copy{.dst = batched_.data_as<std::byte>() + half, .src = source_.data_as<std::byte>() + half, .bytes = half}};
    device_.copy_batch(stream, halves);
    device_.fill(stream, strided_.data(), std::byte{0}, strided_.bytes());
    device_.copy(stream, {.dst = strided_.data(),
                          .src = source_.data(),
                          .bytes = row / 2,
                          .rows = n,
                          .dst_pitch = row,
                          .src_pitch = row});
    device_.fill(stream, filled_.data(), std::byte{0x40}, filled_.bytes());
    const std::array<const void*, 2> sources{source_.data(), source_.data()};
    const std::array<void*, 1> destinations{reduced_.data()};
    device_.reduce(stream, {.sources = sources, .destinations = destinations, .count = n * n});
    device_.map(stream, {.kind = MapKind::add,
                         .out = mapped_.data(),
                         .x = source_.data(),
                         .y = source_.data(),
                         .count = n * n,
                         .alpha = 4.0F,
                         .beta = -1.0F});
    device_.column_sum(stream, {.out = sums_.data_as<float>(), .x = identity_.data(), .rows = n, .columns = n});
    gemm_->run(stream, {.a = source_.data(), .b = identity_.data(), .d = product_.data()});
    const void* const narrow = narrow_identity_.data();
    adding_gemm_->run(stream, {.a = narrow, .b = narrow, .d = added_.data(), .c = narrow, .beta = 1.0F});
    auto* words = words_.data_as<SignalWord>();
    const SignalPut put{.mine = words, .theirs = words + 1};
    const SignalWait wait{.word = words + 1};
    device_.signal(stream, {&put, 1});
    device_.wait(stream, {&wait, 1}, control);
  }

  void check(std::uint64_t times) {
    const auto elements = values_.size();
    const std::vector<float> copied = download(copied_);
    const std::vector<float> batched = download(batched_);
    const std::vector<float> strided = download(strided_);
    const std::vector<float> filled = download(filled_);
    const std::vector<float> reduced = download(reduced_);
    const std::vector<float> mapped = download(mapped_);
    const std::vector<float> product = download(product_);
    const std::vector<float> sums = download(sums_);
    EXPECT_EQ(copied, values_);
    EXPECT_EQ(batched, values_);
    EXPECT_EQ(product, values_);
    const float filler = std::bit_cast<float>(0x40404040U);
    for (std::size_t i = 0; i < elements; ++i) {
      const bool left = i % static_cast<std::size_t>(n) < static_cast<std::size_t>(n) / 2;
      ASSERT_EQ(strided[i], left ? values_[i] : 0.0F) << i;
      ASSERT_EQ(filled[i], filler) << i;
      ASSERT_EQ(reduced[i], 2 * values_[i]) << i;
      ASSERT_NEAR(mapped[i], 3 * values_[i], 1e-5 * std::abs(values_[i])) << i;
    }
    for (const float sum : sums) ASSERT_EQ(sum, 1.0F);
    std::vector<std::uint16_t> added(elements);
    device_.download(added.data(), added_.data(), added_.bytes());
    for (std::size_t i = 0; i < elements; ++i) {
      ASSERT_EQ(added[i], i % (static_cast<std::size_t>(n) + 1) == 0 ? bf16_two : 0) << i;
    }
    std::array<SignalWord, 2> words{};
    device_.download(words.data(), words_.data(), sizeof words);
    EXPECT_EQ(words[0].put, times);
    EXPECT_EQ(words[1].value, times);
    EXPECT_EQ(words[1].taken, times);
  }

 private:
  std::vector<float> download(const Buffer& buffer) {
    std::vector<float> values(buffer.bytes() / sizeof(float));
    device_.download(values.data(), buffer.data(), buffer.bytes());
    return values;
  }

  Device& device_;
  std::vector<float> values_;
  Buffer source_, identity_, copied_, batched_, strided_, filled_, reduced_, mapped_, product_, sums_, words_;
  Buffer narrow_identity_, added_;
  std::unique_ptr<Gemm> gemm_;
  std::unique_ptr<Gemm> adding_gemm_;
};

TEST_P(CudaDeviceTest, EverythingCanBeCaptured) {
  Everything everything(device_, random());
  Stream stream(device());
  auto calls = std::make_shared<std::atomic<int>>(0);
  cudaGraph_t graph = nullptr;
  TANDEM_EXPECT_CUDA(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
  everything.queue(stream, control_);
  device().launch(stream, [calls] { calls->fetch_add(1); });
  TANDEM_EXPECT_CUDA(cudaStreamEndCapture(native(stream), &graph));
  cudaGraphExec_t replay = nullptr;
  TANDEM_EXPECT_CUDA(cudaGraphInstantiate(&replay, graph, 0));
  TANDEM_EXPECT_CUDA(cudaGraphDestroy(graph));
  EXPECT_EQ(calls->load(), 0);
  constexpr int times = 5;
  for (int i = 0; i < times; ++i) TANDEM_EXPECT_CUDA(cudaGraphLaunch(replay, native(stream)));
  stream.synchronize();
  EXPECT_EQ(calls->load(), times);
  EXPECT_EQ(control_->failed, 0U);
  everything.check(times);
  TANDEM_EXPECT_CUDA(cudaGraphExecDestroy(replay));
  // The graph owned the function, and releases it on a thread of the driver.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (calls.use_count() > 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(calls.use_count(), 1);
}

TEST_P(CudaDeviceTest, NothingIsLoadedLateWhileAKernelWaits) {
  // Runs each operation for the first time while a kernel waits: one that loaded code, allocated or synchronized would
  // block here until the wait misses its deadline.
  Everything everything(device_, random());
  Buffer pad(device_, 2 * sizeof(SignalWord));
  const std::array<SignalWord, 2> none{};
  device().upload(pad.data(), none.data(), sizeof none);
  auto* words = pad.data_as<SignalWord>();
  Stream waiting(device());
  Stream working(device(), StreamPriority::high);
  const SignalWait wait{.word = words + 1};
  device().wait(waiting, {&wait, 1}, control_);
  everything.queue(working, control_);
  // Rows of several widths and alignments, for each of which the driver may have a separate kernel.
  const Buffer rows(device_, 8192);
  for (std::size_t unit = 1; unit <= 16; unit *= 2) {
    for (const std::size_t row : {unit, 5 * unit, 33 * unit}) {
      for (const std::size_t gap : {std::size_t{0}, unit, 3 * unit}) {
        device().copy(working, {.dst = rows.data_as<std::byte>() + 4096 + unit,
                                .src = rows.data_as<std::byte>() + unit,
                                .bytes = row,
                                .rows = 5,
                                .dst_pitch = row + gap,
                                .src_pitch = row + unit});
      }
    }
  }
  working.synchronize();
  EXPECT_FALSE(waiting.query());
  const SignalPut put{.mine = words, .theirs = words + 1};
  device().signal(working, {&put, 1});
  waiting.synchronize();
  EXPECT_EQ(control_->failed, 0U);
  everything.check(1);
}

TEST_P(CudaDeviceTest, AnAbortByTheCpuEndsAWait) {
  control_->timeout_ns = 60'000'000'000;
  Buffer pad(device_, sizeof(SignalWord));
  const SignalWord none{};
  device().upload(pad.data(), &none, sizeof none);
  const SignalWait wait{.word = pad.data_as<SignalWord>()};
  Stream stream(device());
  device().wait(stream, {&wait, 1}, control_);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(stream.query());
  const auto begin = std::chrono::steady_clock::now();
  std::atomic_ref(control_->abort).store(1);
  stream.synchronize();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(100));
  EXPECT_EQ(control_->failed, 0U);
}

TEST_P(CudaDeviceTest, LeavesTheCallersContextAlone) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto current = reinterpret_cast<CUresult (*)(CUcontext*)>(dlsym(library, "cuCtxGetCurrent"));
  ASSERT_NE(current, nullptr);
  std::thread([&] {
    // A thread that never used CUDA has no context, and must not be left with one.
    CUcontext context = nullptr;
    EXPECT_EQ(current(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);
    Stream stream(device());
    EXPECT_TRUE(device().owns(stream));
    const Buffer buffer(device_, 64);
    device().fill(stream, buffer.data(), std::byte{1}, 64);
    stream.synchronize();
    EXPECT_EQ(current(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);
  }).join();
}

TEST_P(CudaDeviceTest, SaysWhatLinksTwoGpus) {
  const int gpus = device_count(DeviceType::cuda);
  for (const int other : {0, -1, gpus}) EXPECT_THROW(static_cast<void>(describe_gpu_link(0, other)), InvalidArgument);
  if (gpus < 2) GTEST_SKIP() << "there is one GPU";
  int can = 0;
  ASSERT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  const std::string link = describe_gpu_link(0, 1);
  EXPECT_NE(link.find(can != 0 ? ", peer access with" : ", no peer access: "), std::string::npos) << link;
  EXPECT_TRUE(link.starts_with("NVLink") || link.starts_with("PCIe") || link.starts_with("wires unknown")) << link;
}

TEST_P(CudaDeviceTest, SaysAtWhatClockAGpuRuns) {
  for (const int other : {-1, device_count(DeviceType::cuda)}) EXPECT_THROW(GpuClock clock(other), InvalidArgument);
  const GpuClock clock(device().id().index);
  const std::optional<GpuClock::Reading> now = clock.read();
  if (!now) GTEST_SKIP() << "NVML does not tell";
  EXPECT_GT(now->mhz, 0);
  EXPECT_LE(now->mhz, now->most_mhz);
  int kilohertz = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device().id().index), cudaSuccess);
  EXPECT_EQ(now->most_mhz, kilohertz / 1000);
}

TEST_P(CudaDeviceTest, AnErrorIsToldOnce) {
  const Stream stream(device());
  // An allocation larger than any memory, and a fill of a null pointer.
  EXPECT_THROW(static_cast<void>(device().allocate(std::size_t{1} << 60)), OutOfMemory);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_THROW(device().fill(stream, nullptr, std::byte{0}, 64), DeviceError);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_NO_THROW(stream.synchronize());
}

/// Vectorised and scalar code must round alike, since a rank's shard may have any alignment.
TEST_P(CudaDeviceTest, AlignmentDoesNotChangeABit) {
  constexpr std::size_t n = 4099;
  for (const Activation activation : {Activation::none, Activation::gelu_erf, Activation::gelu_tanh}) {
    for (const DType out_dtype : {bf16, f32}) {
      std::vector<Buffer> straight;
      std::vector<Buffer> shifted;
      std::vector<const void*> straight_sources;
      std::vector<const void*> shifted_sources;
      for (int s = 0; s < 5; ++s) {
        std::vector<BFloat16> values = random_values<BFloat16>(random(), n);
        straight.push_back(upload(values));
        values.insert(values.begin(), BFloat16());
        shifted.push_back(upload(values));
        straight_sources.push_back(straight.back().data());
        shifted_sources.push_back(shifted.back().data_as<BFloat16>() + 1);
      }
      const std::size_t size = size_of(out_dtype);
      const Buffer first = memory(n * size);
      const Buffer second = memory((n + 1) * size);
      const std::array<void*, 1> to_first{first.data()};
      const std::array<void*, 1> to_second{second.data_as<std::byte>() + size};
      Stream stream(device());
      Reduction reduction{.sources = straight_sources,
                          .destinations = to_first,
                          .count = n,
                          .dtype = bf16,
                          .out_dtype = out_dtype,
                          .activation = activation};
      device().reduce(stream, reduction);
      reduction.sources = shifted_sources;
      reduction.destinations = to_second;
      device().reduce(stream, reduction);
      stream.synchronize();
      const auto one = download<std::byte>(first);
      const auto two = download<std::byte>(second);
      EXPECT_EQ(std::memcmp(one.data(), two.data() + size, n * size), 0)
          << name(activation) << " into " << name(out_dtype);
    }
  }
}

/// 16-bit operands at odd elements and with odd leading dimensions, which tensor cores' loads do not support.
TEST_P(CudaDeviceTest, MultipliesFromAnyAddress) {
  for (int round = 0; round < 12; ++round) {
    const std::int64_t m = random_between(1, 150);
    const std::int64_t n = random_between(1, 150);
    const std::int64_t k = random_between(1, 300);
    const GemmSpec spec{.m = m,
                        .n = n,
                        .k = k,
                        .transpose_a = (round & 1) != 0,
                        .transpose_b = (round & 2) != 0,
                        .dtype = bf16,
                        .out_dtype = (round & 4) != 0 ? bf16 : f32,
                        .bias = true,
                        .lda = (round & 1) != 0 ? m + 1 : k + 1,
                        .ldb = (round & 2) != 0 ? k + 3 : n + 3,
                        .ldd = n + 5};
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << ", round " << round);
    const auto a =
        random_values<BFloat16>(random(), static_cast<std::size_t>((spec.transpose_a ? k : m) * spec.lda + 1));
    const auto b =
        random_values<BFloat16>(random(), static_cast<std::size_t>((spec.transpose_b ? n : k) * spec.ldb + 1));
    const auto bias = random_values<float>(random(), static_cast<std::size_t>(n + 1));
    const std::size_t size = size_of(spec.out_dtype);
    const Buffer a_memory = upload(a);
    const Buffer b_memory = upload(b);
    const Buffer d_memory = memory(static_cast<std::size_t>(m * spec.ldd + 1) * size);
    std::vector<BFloat16> narrow_bias;
    for (const float x : bias) narrow_bias.emplace_back(x);
    const Buffer bias_memory = spec.out_dtype == f32 ? upload(bias) : upload(narrow_bias);
    Stream stream(device());
    const auto gemm = device().gemm(spec);
    gemm->run(stream, {.a = a_memory.data_as<BFloat16>() + 1,
                       .b = b_memory.data_as<BFloat16>() + 1,
                       .d = d_memory.data_as<std::byte>() + size,
                       .bias = bias_memory.data_as<std::byte>() + size});
    stream.synchronize();
    std::vector<float> out32;
    std::vector<BFloat16> out16;
    if (spec.out_dtype == f32) {
      out32 = download<float>(d_memory);
    } else {
      out16 = download<BFloat16>(d_memory);
    }
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const auto column = static_cast<std::size_t>(j + 1);
        double sum = spec.out_dtype == f32 ? to_double(bias[column]) : to_double(narrow_bias[column]);
        double magnitude = std::abs(sum);
        for (std::int64_t p = 0; p < k; ++p) {
          const double x =
              to_double(a[static_cast<std::size_t>(1 + (spec.transpose_a ? p * spec.lda + i : i * spec.lda + p))]);
          const double y =
              to_double(b[static_cast<std::size_t>(1 + (spec.transpose_b ? j * spec.ldb + p : p * spec.ldb + j))]);
          sum += x * y;
          magnitude += std::abs(x * y);
        }
        const auto at = static_cast<std::size_t>(1 + i * spec.ldd + j);
        const double seen = spec.out_dtype == f32 ? to_double(out32[at]) : to_double(out16[at]);
        const double bound = (2 * std::sqrt(static_cast<double>(k)) + 10) * 0x1p-24 * magnitude +
                             epsilon(spec.out_dtype) * std::abs(sum);
        ASSERT_LE(std::abs(seen - sum), bound) << "at " << i << ", " << j << "; " << gemm->describe();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaDeviceTest, ::testing::Values(DeviceType::cuda), type_name);

}  // namespace
}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
// Memory that another allocator got from CUDA's VMM API. What every backend must do is in backend_test.cpp.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "support/cuda/driver_function.hpp"
#include "support/devices.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using testing::run_ranks;

class CudaBackend : public testing::OnEachDevice {};

/// Two granules of another allocator's memory.
class Foreign {
 public:
  explicit Foreign(int device, bool shareable) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    if (shareable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_EQ(TANDEM_DRIVER(cuMemCreate)(&handle_, bytes, &properties, 0), CUDA_SUCCESS);
    EXPECT_EQ(TANDEM_DRIVER(cuMemAddressReserve)(&address_, bytes, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(TANDEM_DRIVER(cuMemMap)(address_, bytes, 0, handle_, 0), CUDA_SUCCESS);
    EXPECT_EQ(TANDEM_DRIVER(cuMemSetAccess)(address_, bytes, &access, 1), CUDA_SUCCESS);
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
  ~Foreign() {
    EXPECT_EQ(TANDEM_DRIVER(cuMemUnmap)(address_, bytes), CUDA_SUCCESS);
    EXPECT_EQ(TANDEM_DRIVER(cuMemAddressFree)(address_, bytes), CUDA_SUCCESS);
    EXPECT_EQ(TANDEM_DRIVER(cuMemRelease)(handle_), CUDA_SUCCESS);
  }

  [[nodiscard]] std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  static constexpr std::size_t bytes = std::size_t{4} << 20;

 private:
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
};

TEST_P(CudaBackend, WrapsMemoryOfAnotherAllocator) {
  run_ranks(2,
            [](World& world) {
              constexpr std::int64_t count = 1'000;
              const Foreign foreign(world.device().id().index, true);
              {
                // The tensor begins inside the allocation, not at its start.
                auto tensor = SymmetricTensor::wrap(world.team(), foreign.data() + 4096, {count}, i32);
                tensor.rendezvous();
                EXPECT_EQ(tensor.local().data(), foreign.data() + 4096);
                std::vector<std::int32_t> sent(count);
                std::iota(sent.begin(), sent.end(), world.rank());
                world.device().upload(tensor.remote(1 - world.rank()).data(), sent.data(), tensor.local().bytes());
                world.team().barrier();
                std::vector<std::int32_t> got(count);
                world.device().download(got.data(), foreign.data() + 4096, tensor.local().bytes());
                std::iota(sent.begin(), sent.end(), 1 - world.rank());
                EXPECT_EQ(got, sent);
                world.team().barrier();
              }
              world.device().synchronize();
            },
            {.device = GetParam()});
}

TEST_P(CudaBackend, SaysWhyItCannotWrap) {
  run_ranks(1,
            [](World& world) {
              const Foreign hidden(world.device().id().index, false);
              const Foreign shareable(world.device().id().index, true);
              const auto refused = [&](std::byte* data, std::size_t bytes, const char* reason) {
                try {
                  static_cast<void>(SymmetricMemory::wrap(world.team(), data, bytes));
                  ADD_FAILURE() << "wrapped, though " << reason;
                } catch (const Unsupported& error) {
                  EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
                }
              };
              refused(hidden.data(), 64, "without a file descriptor");
              refused(shareable.data() + 64, Foreign::bytes, "span more than one allocation");
            },
            {.device = GetParam()});
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaBackend, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem

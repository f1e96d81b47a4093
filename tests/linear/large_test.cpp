// SPDX-License-Identifier: Apache-2.0
// A linear operation whose result has more than 2^31 elements and 2^32 bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/linear/all_gather_linear.hpp"

#include "linear/tensors.hpp"
#include "support/devices.hpp"
#include "support/gpu_memory.hpp"

namespace tandem {
namespace {

using testing::Matrix;

class LargeLinear : public testing::OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    constexpr std::size_t needed = std::size_t{12} << 30;  // two ranks, which may share a GPU
    if (const std::size_t free = testing::GpuMemoryWatch::free_bytes(); free < needed) {
      GTEST_SKIP() << "two ranks need " << needed << " bytes of GPU memory; NVML says that " << free << " are free";
    }
  }

  static constexpr LinearSpec spec{.m = 70'000, .n = 32'768, .k = 64, .dtype = bf16};

  /// The compared rows: at least one of any 128, each rank's first and last, and those around element 2^31.
  static std::vector<std::int64_t> sampled_rows() {
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < spec.m; row += 127) rows.push_back(row);
    const std::int64_t border = (std::int64_t{1} << 31) / spec.n;
    for (const std::int64_t row : {spec.m / 2 - 1, spec.m / 2, border - 1, border, border + 1, spec.m - 1}) {
      rows.push_back(row);
    }
    return rows;
  }
};

TEST_P(LargeLinear, AllGatherLinearCountsBeyondThirtyTwoBits) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const auto& device = world.shared_device();
    const Matrix x = Matrix::random(testing::key(testing::seed(), {1}), spec.m, spec.k, spec.dtype);
    const Matrix weight = Matrix::random(testing::key(testing::seed(), {2}), spec.n, spec.k, spec.dtype);
    const auto shard_on = x.part(shard_of(spec.m, team.size(), team.rank())).on(device, spec.dtype);
    const auto weight_on = weight.on(device, spec.dtype);
    const Buffer memory(device, static_cast<std::size_t>(spec.m * spec.n) * size_of(spec.dtype));
    const TensorView y = memory.view({spec.m, spec.n}, spec.dtype);

    const std::vector<std::int64_t> rows = sampled_rows();
    std::vector<double> sampled;
    for (const std::int64_t row : rows) {
      const Matrix part = x.part({row, 1});
      sampled.insert(sampled.end(), part.values.begin(), part.values.end());
    }
    const Matrix b = weight.transposed();
    const testing::Expected expected = testing::expected_product({.m = static_cast<std::int64_t>(rows.size()),
                                                                  .n = spec.n,
                                                                  .k = spec.k,
                                                                  .a = sampled,
                                                                  .b = b.values,
                                                                  .dtype = spec.dtype});
    const Stream stream(*device);
    for (const char* algorithm : {"sequence", "pipeline"}) {
      AllGatherLinear plan(team, spec, {.algorithm = algorithm});
      device->fill(stream, y.data(), testing::poison_of(spec.dtype), y.bytes());
      plan(shard_on.view(), weight_on.view(), y, stream);
      team.synchronize(stream);
      const std::size_t row_bytes = static_cast<std::size_t>(spec.n) * size_of(spec.dtype);
      std::vector<std::byte> got(rows.size() * row_bytes);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        device->download(got.data() + i * row_bytes, y.narrow(0, rows[i], 1).data(), row_bytes);
      }
      const auto compared = testing::compare(expected, got.data());
      EXPECT_EQ(compared.wrong, 0) << to_string(compared) << ", of rows " << spec.n << " long, the first wrong one "
                                   << rows[static_cast<std::size_t>(std::max<std::int64_t>(compared.first, 0) / spec.n)]
                                   << "\n"
                                   << plan.describe();
    }
    team.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(On, LargeLinear, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem

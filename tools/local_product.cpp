// SPDX-License-Identifier: Apache-2.0
#include "tools/local_product.hpp"

#include <algorithm>
#include <cstdint>

#include "tandem/device/device.hpp"
#include "tandem/linear/tuned_product.hpp"

#include "support/oracle.hpp"

namespace tandem::tools {
namespace {

/// Random data, the same 2^16 values over and over: a GPU's clocks depend on the bits that toggle.
Buffer random_buffer(const Team& team, std::int64_t elements, DType dtype) {
  constexpr std::int64_t tile = 1 << 16;
  Buffer buffer(team.shared_device(), static_cast<std::size_t>(elements) * size_of(dtype));
  std::vector<std::byte> values(static_cast<std::size_t>(tile) * size_of(dtype));
  testing::store(testing::random_values(1, tile, dtype), dtype, values.data());
  for (std::size_t at = 0; at < buffer.bytes(); at += values.size()) {
    team.device().upload(buffer.data_as<std::byte>() + at, values.data(), std::min(values.size(), buffer.bytes() - at));
  }
  return buffer;
}

}  // namespace

LocalProduct::LocalProduct(const Team& team, const GemmSpec& spec)
    : team_(team),
      a_(random_buffer(team, spec.m * spec.k, spec.dtype)),
      b_(random_buffer(team, spec.n * spec.k, spec.dtype)),
      d_(team.shared_device(), static_cast<std::size_t>(spec.m * spec.n) * size_of(spec.out_dtype)),
      gemm_(tuned_gemm(team, spec)) {}

void LocalProduct::run(Gemm& gemm, StreamRef stream) const {
  gemm.run(stream, {.a = a_.data(), .b = b_.data(), .d = d_.data()});
}

std::vector<std::byte> LocalProduct::result() const {
  std::vector<std::byte> bytes(d_.bytes());
  team_.device().download(bytes.data(), d_.data(), bytes.size());
  return bytes;
}

void LocalProduct::poison() const {
  const std::vector<std::byte> bytes(d_.bytes(), std::byte{0xff});  // NaNs
  team_.device().upload(d_.data(), bytes.data(), bytes.size());
}

}  // namespace tandem::tools

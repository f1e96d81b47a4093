// SPDX-License-Identifier: Apache-2.0
#include "tools/local_product.hpp"

#include <algorithm>
#include <cstdint>

#include "tandem/base/checked.hpp"
#include "tandem/device/device.hpp"
#include "tandem/linear/tuned_product.hpp"

#include "support/oracle.hpp"

namespace tandem::tools {
namespace {

constexpr std::size_t alignment = 256;  // as an allocation has it: every copy may be read as the first

/// Random data, the same 2^16 values over and over: a GPU's clocks depend on the bits that toggle.
Buffer random_buffer(const Team& team, std::size_t bytes, DType dtype) {
  constexpr std::int64_t tile = 1 << 16;
  Buffer buffer(team.shared_device(), bytes);
  std::vector<std::byte> values(static_cast<std::size_t>(tile) * size_of(dtype));
  testing::store(testing::random_values(1, tile, dtype), dtype, values.data());
  for (std::size_t at = 0; at < buffer.bytes(); at += values.size()) {
    team.device().upload(buffer.data_as<std::byte>() + at, values.data(), std::min(values.size(), buffer.bytes() - at));
  }
  return buffer;
}

}  // namespace

LocalProduct::LocalProduct(const Team& team, const GemmSpec& spec, std::size_t bytes_of_weights)
    : team_(team),
      a_(random_buffer(team, static_cast<std::size_t>(spec.m * spec.k) * size_of(spec.dtype), spec.dtype)),
      pitch_(round_up(std::max<std::size_t>(static_cast<std::size_t>(spec.n * spec.k) * size_of(spec.dtype), 1),
                      alignment)),
      copies_(std::max<std::size_t>((bytes_of_weights + pitch_ - 1) / pitch_, 1)),
      b_(random_buffer(team, copies_ * pitch_, spec.dtype)),
      d_(team.shared_device(), static_cast<std::size_t>(spec.m * spec.n) * size_of(spec.out_dtype)),
      gemm_(tuned_gemm(team, spec)) {}

void LocalProduct::run(Gemm& gemm, StreamRef stream, std::size_t copy) const {
  gemm.run(stream, {.a = a_.data(), .b = b_.data_as<std::byte>() + copy * pitch_, .d = d_.data()});
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

// SPDX-License-Identifier: Apache-2.0
#include "tools/local_product.hpp"

#include <algorithm>
#include <cstdint>

#include "tandem/device/device.hpp"
#include "tandem/linear/tuned_product.hpp"

#include "base/checked.hpp"
#include "support/oracle.hpp"

namespace tandem::tools {
namespace {

constexpr std::size_t alignment = 256;  // that of an allocation, so that every copy of B allows the same algorithms

Buffer random_buffer(const Team& team, std::size_t bytes, DType dtype) {
  Buffer buffer(team.shared_device(), bytes);
  const std::vector<std::byte> values =
      repeated_values(1, static_cast<std::int64_t>(buffer.bytes() / size_of(dtype)), dtype);
  team.device().upload(buffer.data(), values.data(), values.size());
  return buffer;
}

std::size_t bytes_of_scales(const GemmSpec& spec) {
  const std::int64_t scales = spec.scaling == Scaling::per_row ? std::max(spec.m, spec.n) : 1;
  return spec.scaling == Scaling::none ? 0 : static_cast<std::size_t>(scales) * sizeof(float);
}

}  // namespace

std::vector<std::byte> repeated_values(std::uint64_t key, std::int64_t count, DType dtype) {
  constexpr std::int64_t tile = 1 << 16;
  std::vector<std::byte> values(static_cast<std::size_t>(count) * size_of(dtype));
  const std::size_t drawn = static_cast<std::size_t>(std::min(count, tile)) * size_of(dtype);
  testing::store(testing::random_values(key, std::min(count, tile), dtype), dtype, values.data());
  for (std::size_t at = drawn; at < values.size(); at += drawn) {
    std::copy_n(values.begin(), std::min(drawn, values.size() - at), values.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return values;
}

LocalProduct::LocalProduct(const Team& team, const GemmSpec& spec, std::size_t bytes_of_weights)
    : team_(team),
      a_(random_buffer(team, static_cast<std::size_t>(spec.m * spec.k) * size_of(spec.dtype), spec.dtype)),
      pitch_(round_up(std::max<std::size_t>(static_cast<std::size_t>(spec.n * spec.k) * size_of(spec.dtype_of_b()), 1),
                      alignment)),
      copies_(std::max<std::size_t>((bytes_of_weights + pitch_ - 1) / pitch_, 1)),
      b_(random_buffer(team, copies_ * pitch_, spec.dtype_of_b())),
      d_(team.shared_device(), static_cast<std::size_t>(spec.m * spec.n) * size_of(spec.out_dtype)),
      bias_(random_buffer(team, spec.bias ? static_cast<std::size_t>(spec.n) * size_of(spec.out_dtype) : 0,
                          spec.out_dtype)),
      aux_(random_buffer(team, spec.auxiliary != Auxiliary::none ? d_.bytes() : 0, spec.out_dtype)),
      scales_(random_buffer(team, bytes_of_scales(spec), f32)),
      gemm_(tuned_gemm(team, spec)) {}

void LocalProduct::run(Gemm& gemm, StreamRef stream, std::size_t copy) const {
  gemm.run(stream, {.a = a_.data(),
                    .b = b_.data_as<std::byte>() + copy * pitch_,
                    .d = d_.data(),
                    .bias = bias_.data(),
                    .aux = aux_.data(),
                    .a_scale = scales_.data_as<float>(),
                    .b_scale = scales_.data_as<float>()});
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

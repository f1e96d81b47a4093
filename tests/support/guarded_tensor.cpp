// SPDX-License-Identifier: Apache-2.0
#include "support/guarded_tensor.hpp"

#include <algorithm>
#include <gtest/gtest.h>

#include "support/oracle.hpp"

namespace tandem::testing {
namespace {

constexpr std::size_t guard_bytes = 256;
constexpr auto guard = std::byte{0x5C};

}  // namespace

std::byte poison_of(DType dtype) noexcept { return epsilon(dtype) > 0 ? std::byte{0xFF} : std::byte{0xF3}; }

GuardedTensor::GuardedTensor(const std::shared_ptr<Device>& device, const Dims& sizes, DType dtype, std::int64_t offset)
    : device_(device),
      sizes_(sizes),
      dtype_(dtype),
      begin_(guard_bytes + static_cast<std::size_t>(offset) * size_of(dtype)),
      bytes_(static_cast<std::size_t>(sizes.numel()) * size_of(dtype)),
      buffer_(device, begin_ + bytes_ + guard_bytes) {
  Bytes all(buffer_.bytes(), guard);
  std::fill_n(all.begin() + static_cast<std::ptrdiff_t>(begin_), bytes_, poison_of(dtype_));
  device_->upload(buffer_.data(), all.data(), all.size());
}

GuardedTensor::GuardedTensor(const Team& team, const Dims& sizes, DType dtype, std::int64_t offset)
    : GuardedTensor(team.shared_device(), sizes, dtype, offset) {}

GuardedTensor::GuardedTensor(const std::shared_ptr<Device>& device, const Dims& sizes, DType dtype,
                             std::span<const double> values, std::int64_t offset)
    : GuardedTensor(device, sizes, dtype, offset) {
  set(values);
}

TensorView GuardedTensor::view() const { return buffer_.view(sizes_, dtype_, begin_); }

void GuardedTensor::set(std::span<const std::byte> bytes) {
  ASSERT_EQ(bytes.size(), bytes_);
  device_->upload(buffer_.data_as<std::byte>() + begin_, bytes.data(), bytes.size());
}

void GuardedTensor::set(std::span<const double> values) {
  Bytes bytes(values.size() * size_of(dtype_));
  store(values, dtype_, bytes.data());
  set(bytes);
}

void GuardedTensor::poison() { set(Bytes(bytes_, poison_of(dtype_))); }

void GuardedTensor::poison(StreamRef stream) const { device_->fill(stream, view().data(), poison_of(dtype_), bytes_); }

Bytes GuardedTensor::get() const {
  Bytes all(buffer_.bytes());
  device_->download(all.data(), buffer_.data(), all.size());
  const auto whole = [](std::span<const std::byte> side) {
    return std::ranges::all_of(side, [](std::byte b) { return b == guard; });
  };
  EXPECT_TRUE(whole(std::span(all).first(begin_))) << "something was written before the tensor";
  EXPECT_TRUE(whole(std::span(all).subspan(begin_ + bytes_))) << "something was written behind the tensor";
  const auto elements = std::span(all).subspan(begin_, bytes_);
  return {elements.begin(), elements.end()};
}

}  // namespace tandem::testing

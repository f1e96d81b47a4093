// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/linear/linear_spec.hpp"

#include "support/oracle.hpp"
#include "support/ranks.hpp"

namespace tandem::testing {

/// A dense tensor on a rank's device, for a test.
class TestTensor {
 public:
  /// It begins `offset` elements behind where memory is aligned for anything.
  TestTensor(const std::shared_ptr<Device>& device, const Dims& sizes, DType dtype, std::int64_t offset = 0)
      : device_(device),
        begin_(static_cast<std::size_t>(offset) * size_of(dtype)),
        buffer_(device, begin_ + static_cast<std::size_t>(sizes.numel()) * size_of(dtype)),
        sizes_(sizes),
        dtype_(dtype) {}
  TestTensor(const std::shared_ptr<Device>& device, const Dims& sizes, DType dtype, std::span<const double> values,
             std::int64_t offset = 0)
      : TestTensor(device, sizes, dtype, offset) {
    set(values);
  }

  [[nodiscard]] TensorView view() const { return {data(), sizes_, dtype_, device_->id()}; }
  /// Each element of a matrix: element(row, column).
  template <typename Element>
    requires std::is_invocable_v<const Element&, std::int64_t, std::int64_t>
  void set(const Element& element) {
    std::vector<double> values;
    for (std::int64_t row = 0; row < sizes_[0]; ++row) {
      for (std::int64_t column = 0; column < sizes_[1]; ++column) values.push_back(element(row, column));
    }
    set(std::span<const double>(values));
  }
  void set(std::span<const double> values) {
    std::vector<std::byte> bytes(buffer_.bytes() - begin_);
    store(values, dtype_, bytes.data());
    device_->upload(data(), bytes.data(), bytes.size());
  }
  /// Fills with bytes that are a NaN in every floating-point dtype.
  void poison() {
    const std::vector<std::byte> bytes(buffer_.bytes() - begin_, std::byte{0xff});
    device_->upload(data(), bytes.data(), bytes.size());
  }
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> copy(buffer_.bytes() - begin_);
    device_->download(copy.data(), data(), copy.size());
    return copy;
  }

 private:
  [[nodiscard]] std::byte* data() const { return buffer_.data_as<std::byte>() + begin_; }

  std::shared_ptr<Device> device_;
  std::size_t begin_;
  Buffer buffer_;
  Dims sizes_;
  DType dtype_;
};

/// A random [rows, columns] matrix that every rank can make.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;

  static Matrix random(std::uint64_t key, std::int64_t rows, std::int64_t columns, DType dtype) {
    return {rows, columns, random_values(key, rows * columns, dtype)};
  }
  [[nodiscard]] Matrix part(RowRange range) const {
    const auto first = values.begin() + range.begin * columns;
    return {range.count, columns, std::vector<double>(first, first + range.count * columns)};
  }
  [[nodiscard]] Matrix transposed() const { return {columns, rows, testing::transposed(values, rows, columns)}; }
  /// On the device, as `layout` stores it.
  [[nodiscard]] TestTensor on(const std::shared_ptr<Device>& device, DType dtype, Layout layout = Layout::normal,
                              std::int64_t offset = 0) const {
    const Matrix stored = layout == Layout::normal ? *this : transposed();
    return TestTensor(device, {stored.rows, stored.columns}, dtype, stored.values, offset);
  }
};

/// Side by side: [rows, Σ columns].
[[nodiscard]] inline Matrix joined(std::span<const Matrix> parts) {
  Matrix all{parts.front().rows, 0, {}};
  for (const Matrix& part : parts) all.columns += part.columns;
  for (std::int64_t row = 0; row < all.rows; ++row) {
    for (const Matrix& part : parts) {
      const auto first = part.values.begin() + row * part.columns;
      all.values.insert(all.values.end(), first, first + part.columns);
    }
  }
  return all;
}

/// Holds up this rank's stream, now and then.
inline void maybe_delay(const Stream& stream, std::uint64_t bits) {
  if (bits % 4 != 0) return;
  const auto delay = std::chrono::microseconds((bits >> 8) % 2'000);
  stream.device().launch(stream, [delay] { std::this_thread::sleep_for(delay); });
}

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "tandem/base/dims.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/team.hpp"

namespace tandem::testing {

using Bytes = std::vector<std::byte>;

/// The byte that memory of this dtype is filled with before a test writes to it: makes NaNs, which persist in sums even
/// if multiplied by 0; for integers, a byte that no right result consists of by chance.
[[nodiscard]] std::byte poison_of(DType dtype) noexcept;

/// A dense tensor in local memory of a rank's device, with guards on both sides.
class GuardedTensor {
 public:
  /// Poisoned. Its first element is `offset` elements after an address aligned for any access.
  GuardedTensor(const std::shared_ptr<Device>& device, const Dims& sizes, DType dtype, std::int64_t offset = 0);
  GuardedTensor(const Team& team, const Dims& sizes, DType dtype, std::int64_t offset = 0);
  GuardedTensor(const std::shared_ptr<Device>& device, const Dims& sizes, DType dtype, std::span<const double> values,
                std::int64_t offset = 0);

  [[nodiscard]] TensorView view() const;
  void set(std::span<const std::byte> bytes);
  void set(std::span<const double> values);
  /// Sets each element of a matrix to element(row, column).
  template <typename Element>
    requires std::is_invocable_v<const Element&, std::int64_t, std::int64_t>
  void set(const Element& element) {
    std::vector<double> values;
    for (std::int64_t row = 0; row < sizes_[0]; ++row) {
      for (std::int64_t column = 0; column < sizes_[1]; ++column) values.push_back(element(row, column));
    }
    set(std::span<const double>(values));
  }
  void poison();
  /// Behind what is queued on `stream`, as a program that needs the tensor's values no more may do.
  void poison(StreamRef stream) const;
  /// The elements; also checks that the guards are intact.
  [[nodiscard]] Bytes get() const;

 private:
  std::shared_ptr<Device> device_;
  Dims sizes_;
  DType dtype_;
  std::size_t begin_;
  std::size_t bytes_;
  Buffer buffer_;
};

}  // namespace tandem::testing

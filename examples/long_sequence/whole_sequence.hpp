// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/stream.hpp"

#include "long_sequence/sequence.hpp"

namespace tandem::long_sequence {

/// Elements that are wrong.
struct Wrong {
  std::int64_t forward = 0;   ///< of out
  std::int64_t backward = 0;  ///< of dq, dk and dv

  friend bool operator==(const Wrong&, const Wrong&) = default;
};

/// The same attention, computed by every rank for all tokens in their natural order.
class WholeSequence {
 public:
  /// Collective: gathers what each rank has, and attends to it.
  WholeSequence(const Sequence& mine, StreamRef stream);

  /// Elements a of this rank's results that are not |a - b| ≤ error · (|b| + row + all), with the whole sequence's b,
  /// the root mean squares of its row and of all of this rank's rows, and an error of 8 roundings of a dtype of 16
  /// bits, 128 of f32. Rows differ in size: the first keys are seen by most queries. What was computed from other
  /// tokens differs by about `row`. NaNs are wrong.
  [[nodiscard]] Wrong count_wrong(const Sequence& mine) const;

 private:
  [[nodiscard]] TensorView tensor(const Dims& sizes, DType dtype);
  /// A tensor of all ranks' tokens.
  [[nodiscard]] TensorView in_natural_order(const Sequence& mine, const TensorView& padded, StreamRef stream);

  std::shared_ptr<Device> device_;
  std::vector<Buffer> buffers_;
  TensorView out_, dq_, dk_, dv_;
};

}  // namespace tandem::long_sequence

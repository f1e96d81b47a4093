// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "long_sequence/sequence.hpp"

namespace tandem::long_sequence {

/// The communication that attention needs if nothing hides it: all keys and values are gathered first, and gradients of
/// all of them are summed afterwards.
class Collectives {
 public:
  /// Collective.
  explicit Collectives(const Sequence& mine);

  /// Every rank's keys and values.
  void gather(const Sequence& mine, StreamRef stream);
  /// Sums, in f32, tensors of the size and dtype of the gradients of all keys and values. What they contain makes no
  /// difference: they are the gathered keys and values themselves, which takes no memory.
  void sum_gradients(StreamRef stream);

  /// Where gathered keys, or values, of a rank begin, in tokens.
  [[nodiscard]] std::int64_t first_token(int rank) const noexcept { return rank * most_; }
  [[nodiscard]] const TensorView& keys() const { return keys_.local(); }
  [[nodiscard]] const TensorView& values() const { return values_.local(); }

 private:
  std::int64_t most_;
  SymmetricTensor keys_, values_;
  Buffer dk_, dv_;
  TensorView dk_sums_, dv_sums_;
  AllGather gather_keys_, gather_values_;
  ReduceScatter sum_dk_, sum_dv_;
};

}  // namespace tandem::long_sequence

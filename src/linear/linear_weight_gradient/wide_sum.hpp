// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tandem/device/buffer.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/linear/linear_spec.hpp"

#include "memory/owners.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The f32 buffer in which a pipeline accumulates a 16-bit dW, so that it is rounded only once.
class WideSum {
 public:
  /// Collective.
  WideSum(const Team& team, const LinearSpec& spec, int leave_sms);

  /// Begins a run, whose first GEMM applies beta: if that is not 0, the sum begins with dW.
  void begin(StreamRef stream, const void* dw) const;
  /// The GEMMs' D.
  [[nodiscard]] void* data() const { return sum_->data(); }
  [[nodiscard]] Gemm& gemm() const { return *gemm_; }
  /// Ends a run: rounds the sum into dW.
  void round(StreamRef stream, void* dw) const;

  /// Owners of what its runs use.
  [[nodiscard]] Owners owners() const { return {sum_.shared(), gemm_.shared()}; }
  [[nodiscard]] std::string describe() const;

 private:
  void cast(StreamRef stream, const void* from, DType dtype, void* to, DType out_dtype) const;

  Team team_;
  DType dtype_;  ///< dW's
  std::int64_t elements_;
  bool begins_with_dw_;
  Reclaimed<Buffer> sum_;
  Reclaimed<Gemm> gemm_;
};

}  // namespace tandem

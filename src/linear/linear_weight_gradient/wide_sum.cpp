// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_weight_gradient/wide_sum.hpp"

#include "tandem/device/trace_range.hpp"
#include "tandem/linear/tuned_product.hpp"

#include "base/format.hpp"
#include "collective/plan_buffer.hpp"
#include "linear/local_gemm.hpp"

namespace tandem {

WideSum::WideSum(const Team& team, const LinearSpec& spec, int leave_sms)
    : team_(team),
      dtype_(spec.gradient_dtype),
      elements_(spec.n * spec.k),
      begins_with_dw_(spec.beta != 0.0F),
      sum_(team, plan_buffer(team, static_cast<std::size_t>(elements_) * size_of(f32))),
      gemm_(team, tuned_gemm(team, leaving(leave_sms, partial_gradient_gemm(spec)))) {}

void WideSum::begin(StreamRef stream, const void* dw) const {
  if (!begins_with_dw_) return;
  const TraceRange range(team_.device(), stream, "widen dW", TraceKind::compute);
  cast(stream, dw, dtype_, data(), f32);
}

void WideSum::round(StreamRef stream, void* dw) const {
  const TraceRange range(team_.device(), stream, "round dW", TraceKind::compute);
  cast(stream, data(), f32, dw, dtype_);
}

void WideSum::cast(StreamRef stream, const void* from, DType dtype, void* to, DType out_dtype) const {
  team_.device().map(
      stream,
      {.kind = MapKind::cast, .out = to, .x = from, .count = elements_, .dtype = dtype, .out_dtype = out_dtype});
}

std::string WideSum::describe() const {
  return format("{}; added up in f32 ({} bytes beside dW), rounded once to {}", gemm_->describe(), sum_->bytes(),
                name(dtype_));
}

}  // namespace tandem

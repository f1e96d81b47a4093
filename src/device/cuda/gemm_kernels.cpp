// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gemm_kernels.hpp"

#include <cstddef>

#include "device/cuda/check.hpp"
#include "device/cuda/kernels/gemm.hpp"
#include "device/cuda/kernels/map.hpp"

namespace tandem::cuda {

void GemmKernels::multiply(const GemmOperands& operands, std::int64_t m, std::int64_t k, const GemmPitches& ld,
                           float beta, cudaStream_t stream) const {
  const GemmSpec& s = spec_;
  check(launch_tiled_gemm({.a = operands.a,
                           .b = operands.b,
                           .c = operands.c != nullptr ? operands.c : operands.d,
                           .d = operands.d,
                           .bias = s.bias ? operands.bias : nullptr,
                           .a_scale = k != 0 && s.scaling != Scaling::none ? operands.a_scale : nullptr,
                           .b_scale = operands.b_scale,
                           .scale_step = s.scaling == Scaling::per_row ? 1 : 0,
                           .a_dtype = s.dtype,
                           .b_dtype = s.dtype_of_b(),
                           .m = m,
                           .n = s.n,
                           .k = k,
                           .a_row = s.transpose_a ? 1 : ld.a,
                           .a_column = s.transpose_a ? ld.a : 1,
                           .b_row = s.transpose_b ? 1 : ld.b,
                           .b_column = s.transpose_b ? ld.b : 1,
                           .ldd = ld.d,
                           .alpha = s.alpha,
                           .beta = beta,
                           .activation = activation_of_sums()},
                          s.out_dtype, stream),
        "the tiled GEMM");
}

void GemmKernels::map(const Map& map, cudaStream_t stream) const {
  check(launch_map(map, multiprocessors_ * 8, stream), "the last step of a GEMM");
}

Map GemmKernels::rows(MapKind kind, void* out, const void* x, const void* y, std::int64_t m) const {
  const GemmSpec& s = spec_;
  return {.kind = kind,
          .out = out,
          .x = x,
          .y = y,
          .count = m * s.n,
          .dtype = s.out_dtype,
          .out_dtype = s.out_dtype,
          .activation = s.activation};
}

void GemmKernels::finish(void* d, const void* bias, std::int64_t m, std::int64_t ldd, cudaStream_t stream) const {
  const GemmSpec& s = spec_;
  if (ldd == s.n) {
    Map rest = rows(MapKind::activate, d, d, nullptr, m);
    rest.activation = activation_of_sums();
    rest.bias = bias;
    rest.columns = s.n;
    map(rest, stream);
    return;
  }
  // Rows of D are strided: a tiled GEMM with k = 0 and beta = 1 does only this.
  check(launch_tiled_gemm({.c = d,
                           .d = d,
                           .bias = bias,
                           .a_dtype = s.dtype,
                           .b_dtype = s.dtype_of_b(),
                           .m = m,
                           .n = s.n,
                           .ldd = ldd,
                           .beta = 1.0F,
                           .activation = activation_of_sums()},
                          s.out_dtype, stream),
        "the last step of a GEMM");
}

void GemmKernels::activate(void* d, const void* sums, void* aux, std::int64_t m, cudaStream_t stream) const {
  const GemmSpec& s = spec_;
  const bool forward = s.auxiliary == Auxiliary::output;
  if (forward && sums != aux) {
    check(cudaMemcpyAsync(aux, sums, static_cast<std::size_t>(m * s.n) * size_of(s.out_dtype), cudaMemcpyDeviceToDevice,
                          stream),
          "the auxiliary output of a GEMM");
  }
  map(rows(forward ? MapKind::activate : MapKind::activate_grad, d, aux, forward ? nullptr : sums, m), stream);
}

}  // namespace tandem::cuda

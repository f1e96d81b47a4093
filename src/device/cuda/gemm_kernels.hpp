// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

#include "tandem/device/gemm.hpp"
#include "tandem/device/reduce.hpp"

namespace tandem::cuda {

/// Elements from one stored row of a GEMM's A, B and D to the next.
struct GemmPitches {
  std::int64_t a;
  std::int64_t b;
  std::int64_t d;
};

/// What kernels of our own do of a GEMM: its last steps, as far as the library's epilogue does not, or all of it.
class GemmKernels {
 public:
  GemmKernels(const GemmSpec& spec, int multiprocessors) : spec_(spec), multiprocessors_(multiprocessors) {}

  /// The activation that is applied before the sums are rounded. None with an auxiliary, unless the library's epilogue
  /// handles both: then a kernel after the GEMM applies the activation, or its gradient, with the rounded sums.
  [[nodiscard]] Activation activation_of_sums() const noexcept {
    return spec_.auxiliary == Auxiliary::none ? spec_.activation : Activation::none;
  }
  /// The whole GEMM, with bias and `activation_of_sums`, for any alignment; also for k = 0.
  void multiply(const GemmOperands& operands, std::int64_t m, std::int64_t k, const GemmPitches& ld, float beta,
                cudaStream_t stream) const;
  /// Adds the bias, unless it is null, to D, whose rows are `ldd` elements apart, and applies `activation_of_sums`.
  void finish(void* d, const void* bias, std::int64_t m, std::int64_t ldd, cudaStream_t stream) const;
  /// With an auxiliary: makes D from the rounded sums at `sums`, which may be D or the auxiliary itself.
  void activate(void* d, const void* sums, void* aux, std::int64_t m, cudaStream_t stream) const;

 private:
  /// An elementwise operation on m dense rows of n elements, with the spec's activation.
  [[nodiscard]] Map rows(MapKind kind, void* out, const void* x, const void* y, std::int64_t m) const;
  void map(const Map& map, cudaStream_t stream) const;

  GemmSpec spec_;
  int multiprocessors_;
};

}  // namespace tandem::cuda

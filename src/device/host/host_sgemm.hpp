// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/host/builtin_gemm.hpp"
#include "device/host/host_gemm.hpp"
#include "device/host/onednn.hpp"

namespace tandem {

/// C[m, n] = alpha · op(A) · op(B) + beta · C by this library, row-major, on the calling thread. `workspace` is the
/// built-in kernel's; the other needs none.
inline void host_sgemm(HostGemmLibrary library, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                       std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                       float beta, float* c, std::int64_t ldc, float* workspace) {
  if (library == HostGemmLibrary::onednn && k != 0) {
    OneDnn::load()->sgemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  } else {
    builtin_gemm<float>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, workspace);
  }
}

}  // namespace tandem

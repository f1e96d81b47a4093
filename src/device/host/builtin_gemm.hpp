// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

/// Tandem's own GEMM, used without a library: C[m, n] = alpha · op(A) · op(B) + beta · C, row-major, on the calling
/// thread. If beta is 0, C is not read. `workspace` holds `builtin_gemm_workspace<T>()` elements, 64-byte aligned.
template <typename T>
void builtin_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
                  const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc,
                  T* workspace);

template <typename T> [[nodiscard]] std::size_t builtin_gemm_workspace() noexcept;

}  // namespace tandem

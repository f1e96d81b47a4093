// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

/// Tandem's own product, for where no library is or may be used: C[m, n] = alpha · op(A) · op(B) + beta · C, row-major,
/// on the calling thread. beta 0 does not read C. `workspace` holds `builtin_gemm_workspace<T>()` elements, 64-byte
/// aligned.
template <typename T>
void builtin_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
                  const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc,
                  T* workspace);

template <typename T> [[nodiscard]] std::size_t builtin_gemm_workspace() noexcept;

}  // namespace tandem

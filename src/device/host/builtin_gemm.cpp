// SPDX-License-Identifier: Apache-2.0
#include "device/host/builtin_gemm.hpp"

#include <algorithm>
#include <cstring>

#include "device/host/vector_isa.hpp"

namespace tandem {

namespace {

// Blocking as in every GEMM since GotoBLAS: a panel of A (m × k) stays in the L2 cache, a sliver of B (k × tile_n) in
// L1, a tile of C in registers.
template <typename T> struct Blocks {
  static constexpr std::int64_t vector = 32 / static_cast<std::int64_t>(sizeof(T));  // elements of 256 bits
  static constexpr std::int64_t tile_m = 6;
  static constexpr std::int64_t tile_n = 2 * vector;
  static constexpr std::int64_t m = 16 * tile_m;
  static constexpr std::int64_t k = 256;
  static constexpr std::int64_t n = 1024 / static_cast<std::int64_t>(sizeof(T)) * 4;
};

template <typename T> using Vector [[gnu::vector_size(32)]] = T;

// sums[tile_m, tile_n] = the product of a packed sliver of A and one of B, each of depth `k` and zero-padded.
template <typename T> struct Tile {
  [[gnu::always_inline]] static inline void loop(const T* a, const T* b, std::int64_t k, T* sums) {
    using B = Blocks<T>;
    Vector<T> acc[B::tile_m][2] = {};
    for (std::int64_t p = 0; p < k; ++p) {
      Vector<T> b0;
      Vector<T> b1;
      std::memcpy(&b0, b, sizeof(b0));
      std::memcpy(&b1, b + B::vector, sizeof(b1));
#pragma GCC unroll 6
      for (int i = 0; i < B::tile_m; ++i) {
        acc[i][0] += a[i] * b0;
        acc[i][1] += a[i] * b1;
      }
      a += B::tile_m;
      b += B::tile_n;
    }
    std::memcpy(sums, acc, sizeof(acc));
  }
};

// Packs op(A)[rows, depth] into slivers of tile_m rows, or op(B)[depth, columns] into slivers of tile_n columns:
// element (i, p) of a sliver is at p · tile + i.
template <typename T, std::int64_t tile>
void pack(const T* from, std::int64_t step_along_tile, std::int64_t step_along_k, std::int64_t extent,
          std::int64_t depth, T* to) {
  for (std::int64_t first = 0; first < extent; first += tile) {
    const std::int64_t n = std::min(tile, extent - first);
    const T* const sliver = from + first * step_along_tile;
    if (step_along_tile == 1) {
      for (std::int64_t p = 0; p < depth; ++p) {
        std::memcpy(to + p * tile, sliver + p * step_along_k, static_cast<std::size_t>(n) * sizeof(T));
        std::fill(to + p * tile + n, to + (p + 1) * tile, T(0));
      }
    } else {
      for (std::int64_t i = 0; i < tile; ++i) {
        const T* const line = sliver + i * step_along_tile;
        for (std::int64_t p = 0; p < depth; ++p) to[p * tile + i] = i < n ? line[p * step_along_k] : T(0);
      }
    }
    to += tile * depth;
  }
}

template <typename T> void scale_rows(std::int64_t m, std::int64_t n, T beta, T* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    T* const row = c + i * ldc;
    if (beta == T(0)) {
      std::fill_n(row, n, T(0));
    } else if (beta != T(1)) {
      for (std::int64_t j = 0; j < n; ++j) row[j] *= beta;
    }
  }
}

}  // namespace

template <typename T> std::size_t builtin_gemm_workspace() noexcept {
  using B = Blocks<T>;
  return static_cast<std::size_t>(B::m * B::k + B::k * B::n);
}

template <typename T>
void builtin_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
                  const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc,
                  T* workspace) {
  using B = Blocks<T>;
  scale_rows(m, n, beta, c, ldc);
  T* const packed_a = workspace;
  T* const packed_b = workspace + B::m * B::k;
  const std::int64_t a_row = transpose_a ? 1 : lda;
  const std::int64_t a_k = transpose_a ? lda : 1;
  const std::int64_t b_column = transpose_b ? ldb : 1;
  const std::int64_t b_k = transpose_b ? 1 : ldb;
  for (std::int64_t jn = 0; jn < n; jn += B::n) {
    const std::int64_t nn = std::min(B::n, n - jn);
    for (std::int64_t pk = 0; pk < k; pk += B::k) {
      const std::int64_t kk = std::min(B::k, k - pk);
      pack<T, B::tile_n>(b + jn * b_column + pk * b_k, b_column, b_k, nn, kk, packed_b);
      for (std::int64_t im = 0; im < m; im += B::m) {
        const std::int64_t mm = std::min(B::m, m - im);
        pack<T, B::tile_m>(a + im * a_row + pk * a_k, a_row, a_k, mm, kk, packed_a);
        for (std::int64_t j = 0; j < nn; j += B::tile_n) {
          for (std::int64_t i = 0; i < mm; i += B::tile_m) {
            alignas(32) T sums[B::tile_m * B::tile_n];
            run_vectorised<Tile<T>>(static_cast<const T*>(packed_a + i * kk), static_cast<const T*>(packed_b + j * kk),
                                    kk, static_cast<T*>(sums));
            const std::int64_t rows = std::min(B::tile_m, mm - i);
            const std::int64_t columns = std::min(B::tile_n, nn - j);
            for (std::int64_t r = 0; r < rows; ++r) {
              T* const out = c + (im + i + r) * ldc + jn + j;
              for (std::int64_t s = 0; s < columns; ++s) out[s] += alpha * sums[r * B::tile_n + s];
            }
          }
        }
      }
    }
  }
}

template std::size_t builtin_gemm_workspace<float>() noexcept;
template std::size_t builtin_gemm_workspace<double>() noexcept;
template void builtin_gemm<float>(bool, bool, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                                  std::int64_t, const float*, std::int64_t, float, float*, std::int64_t, float*);
template void builtin_gemm<double>(bool, bool, std::int64_t, std::int64_t, std::int64_t, double, const double*,
                                   std::int64_t, const double*, std::int64_t, double, double*, std::int64_t, double*);

}  // namespace tandem

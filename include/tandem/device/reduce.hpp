// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/base/concepts.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/device/copy.hpp"
#include "tandem/device/gemm.hpp"

namespace tandem {

inline constexpr std::size_t max_reduce_operands = 64;

/// out[i] = activation(Σ_s sources[s][i] + bias[i mod columns]) for `count` elements, written to every destination.
/// Sources are added in the given order, in fp32 for f32, f16 and bf16 (f64 in f64, integers in their own type), so
/// the same sources in the same order give bitwise equal results on every rank. Sources have `dtype`, destinations
/// `out_dtype` (`dtype`, or f32 for f16 and bf16); all are dense and may be peers' memory. A destination may be one of
/// the sources (each element is read before it is written); otherwise they must not overlap.
/// `bias` (of `out_dtype`) and `activation` are for floating-point dtypes only.
struct Reduction {
  std::span<const void* const> sources{};
  std::span<void* const> destinations{};
  std::int64_t count = 0;
  DType dtype = f32;
  DType out_dtype = f32;
  const void* bias = nullptr;
  std::int64_t columns = 1;
  Activation activation = Activation::none;
  int peer_destinations = 0;   ///< how many destinations are peers' memory: CUDA uses fewer blocks then
  int most_blocks = 0;         ///< CUDA: maximum number of thread blocks, each of which may take an SM; 0: automatic
  std::size_t link_bytes = 0;  ///< bytes that cross between ranks, for the host's emulated link
};
static_assert(Plain<Reduction>);

/// An elementwise operation on x, or on x and y: all tensors dense, of `dtype` f32, f16 or bf16. Casts are from any of
/// these to any, and between these and f8e4m3 or f8e5m2, whose largest number is what anything larger becomes.
enum class MapKind : std::uint8_t {
  cast,           ///< out = alpha · x
  activate,       ///< out = activation(x + bias[i mod columns])
  activate_grad,  ///< out = y · activation'(x + bias[i mod columns]); `y` is the output's gradient
  add,            ///< out = alpha · x + beta · y
};

struct Map {
  MapKind kind = MapKind::cast;
  void* out = nullptr;
  const void* x = nullptr;
  const void* y = nullptr;
  const void* bias = nullptr;
  std::int64_t count = 0;
  std::int64_t columns = 1;
  DType dtype = f32;
  DType out_dtype = f32;  ///< of a cast only
  Activation activation = Activation::none;
  float alpha = 1.0F;
  float beta = 1.0F;

  [[nodiscard]] DType stored() const noexcept { return kind == MapKind::cast ? out_dtype : dtype; }
};
static_assert(Plain<Map>);

/// out[c] = Σ_r x[r, c] + accumulate · out[c]: a bias' gradient. x is dense [rows, columns], f32, f16 or bf16; out f32.
struct ColumnSum {
  float* out = nullptr;
  const void* x = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  DType dtype = f32;
  bool accumulate = false;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_elementwise.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "tandem/base/error.hpp"
#include "tandem/base/scalar.hpp"

#include "base/format.hpp"
#include "device/host/host_copy.hpp"
#include "device/host/vector_isa.hpp"
#include "device/host/vector_math.hpp"

namespace tandem {

namespace {

// Elements of a block: few enough that a block of sums and one of a source stay in the L1 cache.
constexpr std::int64_t block_elements = 2048;

template <typename T> using Block = std::array<T, static_cast<std::size_t>(block_elements)>;

// ---- Loops. Each is compiled for every instruction set of vector_isa.hpp. ----

struct Widen {
  template <typename From>
  [[gnu::always_inline]] static inline void loop(const From* __restrict from, float* __restrict to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
  }
};

struct Narrow {
  template <typename To>
  [[gnu::always_inline]] static inline void loop(const float* __restrict from, To* __restrict to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = To(from[i]);
  }
};

// Integers wrap on overflow; in C++ only unsigned ones may.
template <typename T> [[gnu::always_inline]] inline T plus(T a, T b) noexcept {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

struct Add {
  template <typename Sum, typename From>
  [[gnu::always_inline]] static inline void loop(Sum* __restrict sums, const From* __restrict from, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] = plus(sums[i], static_cast<Sum>(from[i]));
  }
};

// The destination may be one of the sources: no iteration depends on another, as ivdep tells the compiler.
struct AddTwo {
  template <typename T> [[gnu::always_inline]] static inline void loop(T* out, const T* a, const T* b, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = plus(a[i], b[i]);
  }
};
struct AddThree {
  template <typename T>
  [[gnu::always_inline]] static inline void loop(T* out, const T* a, const T* b, const T* c, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = plus(plus(a[i], b[i]), c[i]);
  }
};
struct AddFour {
  template <typename T>
  [[gnu::always_inline]] static inline void loop(T* out, const T* a, const T* b, const T* c, const T* d,
                                                 std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = plus(plus(plus(a[i], b[i]), c[i]), d[i]);
  }
};

struct Scale {
  [[gnu::always_inline]] static inline void loop(float* x, float alpha, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) x[i] *= alpha;
  }
};

struct ScaleAndAdd {
  [[gnu::always_inline]] static inline void loop(float* out, const float* x, float alpha, const float* y, float beta,
                                                 std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = alpha * x[i] + beta * y[i];
  }
};

struct Activate {
  template <typename T> [[gnu::always_inline]] static inline void loop(T* x, Activation activation, std::int64_t n) {
    switch (activation) {
      case Activation::none: return;
      case Activation::gelu_erf:
        for (std::int64_t i = 0; i < n; ++i) x[i] = gelu_erf(x[i]);
        return;
      case Activation::gelu_tanh:
        for (std::int64_t i = 0; i < n; ++i) x[i] = gelu_tanh(x[i]);
        return;
    }
  }
};
struct ActivateGrad {
  [[gnu::always_inline]] static inline void loop(float* __restrict x, const float* __restrict y, Activation activation,
                                                 std::int64_t n) {
    switch (activation) {
      case Activation::none:
        for (std::int64_t i = 0; i < n; ++i) x[i] = y[i];
        return;
      case Activation::gelu_erf:
        for (std::int64_t i = 0; i < n; ++i) x[i] = y[i] * gelu_erf_grad(x[i]);
        return;
      case Activation::gelu_tanh:
        for (std::int64_t i = 0; i < n; ++i) x[i] = y[i] * gelu_tanh_grad(x[i]);
        return;
    }
  }
};

// ---- Blocks of any dtype ----

template <typename Function> void with_float_type(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f32: return function(float{});
    case DType::f16: return function(Half{});
    case DType::bf16: return function(BFloat16{});
    default: return expect_elementwise(dtype);
  }
}

template <typename Function> void with_cast_type(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f8e4m3: return function(Float8E4M3{});
    case DType::f8e5m2: return function(Float8E5M2{});
    default: return with_float_type(dtype, function);
  }
}

template <typename T> const T* at(const void* base, std::int64_t i) noexcept { return static_cast<const T*>(base) + i; }
template <typename T> T* at(void* base, std::int64_t i) noexcept { return static_cast<T*>(base) + i; }
template <typename T> std::size_t bytes_of(std::int64_t n) noexcept { return static_cast<std::size_t>(n) * sizeof(T); }

/// For a type of 8 bits.
template <typename T> void look_up_bits(const T* from, float* to, std::int64_t n) {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (std::size_t bits = 0; bits < all.size(); ++bits) {
      T narrow;
      narrow.bits = static_cast<std::uint8_t>(bits);
      all[bits] = static_cast<float>(narrow);
    }
    return all;
  }();
  for (std::int64_t i = 0; i < n; ++i) to[i] = values[from[i].bits];
}

template <typename T> void widen_block(const T* from, float* to, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(to, from, bytes_of<float>(n));
  } else if constexpr (std::is_same_v<T, Half>) {
    widen_half(from, to, n);
  } else if constexpr (sizeof(T) == 1) {
    look_up_bits(from, to, n);
  } else {
    run_vectorised<Widen>(from, to, n);
  }
}

template <typename T> void narrow_block(const float* from, T* to, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    if (from != to) std::memcpy(to, from, bytes_of<float>(n));
  } else if constexpr (std::is_same_v<T, Half>) {
    narrow_half(from, to, n);
  } else {
    run_vectorised<Narrow>(from, to, n);
  }
}

template <typename T, typename Sum> void add_block(Sum* sums, const T* from, std::int64_t n) {
  if constexpr (std::is_same_v<T, Half>) {
    Block<float> wide;
    widen_half(from, wide.data(), n);
    run_vectorised<Add>(sums, static_cast<const float*>(wide.data()), n);
  } else {
    run_vectorised<Add>(sums, from, n);
  }
}

// Adds bias[(first + i) mod columns] to the block.
template <typename Bias, typename Sum>
void add_bias(Sum* sums, const void* bias, std::int64_t first, std::int64_t columns, std::int64_t n) {
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t column = (first + i) % columns;
    const std::int64_t piece = std::min(n - i, columns - column);
    add_block(sums + i, at<Bias>(bias, column), piece);
    i += piece;
  }
}

// ---- Reductions ----

// Adds up to four sources of the sum's type in one pass, which saves a third of the time if they are large.
template <typename T>
bool sum_at_once(std::span<const void* const> sources, std::int64_t first, T* out, std::int64_t n) {
  const auto source = [&](std::size_t s) { return at<T>(sources[s], first); };
  switch (sources.size()) {
    case 2: run_vectorised<AddTwo>(out, source(0), source(1), n); return true;
    case 3: run_vectorised<AddThree>(out, source(0), source(1), source(2), n); return true;
    case 4: run_vectorised<AddFour>(out, source(0), source(1), source(2), source(3), n); return true;
    default: return false;
  }
}

// Sums one block of all sources, in their order. Floats narrower than the sum are widened first.
template <typename T, typename Sum>
void sum_block(std::span<const void* const> sources, std::int64_t first, Sum* sums, std::int64_t n) {
  if constexpr (std::is_same_v<T, Sum>) {
    if (sum_at_once<T>(sources, first, sums, n)) return;
    std::memcpy(sums, at<T>(sources[0], first), bytes_of<T>(n));
  } else {
    widen_block(at<T>(sources[0], first), sums, n);
  }
  for (const void* const source : sources.subspan(1)) add_block(sums, at<T>(source, first), n);
}

// A destination that is a source has just been read, so it is in the cache.
Stores stores_for(const Reduction& r, const void* destination, std::size_t bytes) noexcept {
  const bool in_place = std::find(r.sources.begin(), r.sources.end(), destination) != r.sources.end();
  return in_place ? Stores::cached : best_stores(Stored::sum, bytes);
}

template <typename T, typename Sum, typename Out> void reduce_typed(const Reduction& r) {
  constexpr bool plain_types = std::is_same_v<T, Sum> && std::is_same_v<Sum, Out>;
  const bool streaming = best_stores(Stored::sum, bytes_of<Out>(r.count)) == Stores::streaming;
  const bool straight =
      plain_types && !streaming && r.destinations.size() == 1 && r.bias == nullptr && r.activation == Activation::none;
  Block<Sum> sums;
  Block<Out> outs;
  for (std::int64_t first = 0; first < r.count; first += block_elements) {
    const std::int64_t n = std::min(block_elements, r.count - first);
    if constexpr (plain_types) {
      if (straight && sum_at_once<T>(r.sources, first, at<T>(r.destinations[0], first), n)) continue;
    }
    sum_block<T>(r.sources, first, sums.data(), n);
    const Out* result = nullptr;
    if constexpr (std::is_floating_point_v<Sum>) {
      if (r.bias != nullptr) add_bias<Out>(sums.data(), r.bias, first, r.columns, n);
      if (r.activation != Activation::none) run_vectorised<Activate>(sums.data(), r.activation, n);
    }
    if constexpr (std::is_same_v<Sum, Out>) {
      result = sums.data();
    } else {
      narrow_block(sums.data(), outs.data(), n);
      result = outs.data();
    }
    for (void* const destination : r.destinations) {
      copy_bytes(at<Out>(destination, first), result, bytes_of<Out>(n),
                 stores_for(r, destination, bytes_of<Out>(r.count)));
    }
  }
  if (streaming) order_streaming_stores();
}

}  // namespace

void reduce_now(const Reduction& r) {
  if (r.count == 0 || r.sources.empty()) return;
  switch (r.dtype) {
    case DType::f32: return reduce_typed<float, float, float>(r);
    case DType::f16:
      return r.out_dtype == DType::f32 ? reduce_typed<Half, float, float>(r) : reduce_typed<Half, float, Half>(r);
    case DType::bf16:
      return r.out_dtype == DType::f32 ? reduce_typed<BFloat16, float, float>(r)
                                       : reduce_typed<BFloat16, float, BFloat16>(r);
    case DType::f64: return reduce_typed<double, double, double>(r);
    case DType::i32: return reduce_typed<std::int32_t, std::int32_t, std::int32_t>(r);
    case DType::i64: return reduce_typed<std::int64_t, std::int64_t, std::int64_t>(r);
    case DType::u8: return reduce_typed<std::uint8_t, std::uint8_t, std::uint8_t>(r);
    case DType::f8e4m3:
    case DType::f8e5m2: return expect_sums_of(r.dtype);
  }
}

void expect_sums_of(DType dtype) {
  if (dtype == f8e4m3 || dtype == f8e5m2) {
    throw Unsupported(format("a sum of {}; sums exist of f32, f16, bf16, f64, i32, i64 and u8", name(dtype)));
  }
}

void expect_elementwise(DType dtype) {
  if (dtype != f32 && dtype != f16 && dtype != bf16) {
    throw Unsupported(format("elementwise work on {}; it can do f32, f16 and bf16", name(dtype)));
  }
}

void expect_map(const Map& map) {
  if (map.kind == MapKind::cast && is_float8(map.dtype) != is_float8(map.out_dtype)) {
    return expect_elementwise(is_float8(map.dtype) ? map.out_dtype : map.dtype);
  }
  for (const DType dtype : {map.dtype, map.stored()}) expect_elementwise(dtype);
}

void cast_now(const Map& map) {
  with_cast_type(map.dtype, [&]<typename In>(In) {
    with_cast_type(map.out_dtype, [&]<typename Out>(Out) {
      Block<float> x;
      Block<Out> out;
      for (std::int64_t first = 0; first < map.count; first += block_elements) {
        const std::int64_t n = std::min(block_elements, map.count - first);
        widen_block(at<In>(map.x, first), x.data(), n);
        if (map.alpha != 1.0F) run_vectorised<Scale>(x.data(), map.alpha, n);
        narrow_block(x.data(), out.data(), n);
        std::memcpy(at<Out>(map.out, first), out.data(), bytes_of<Out>(n));
      }
    });
  });
}

void map_now(const Map& map) {
  if (map.kind == MapKind::cast) return cast_now(map);
  with_float_type(map.dtype, [&]<typename T>(T) {
    Block<float> x;
    Block<float> y;
    Block<T> out;
    for (std::int64_t first = 0; first < map.count; first += block_elements) {
      const std::int64_t n = std::min(block_elements, map.count - first);
      widen_block(at<T>(map.x, first), x.data(), n);
      const bool has_y = map.kind == MapKind::activate_grad || map.kind == MapKind::add;
      if (has_y) widen_block(at<T>(map.y, first), y.data(), n);
      const bool biased = map.kind == MapKind::activate || map.kind == MapKind::activate_grad;
      if (biased && map.bias != nullptr) add_bias<T>(x.data(), map.bias, first, map.columns, n);
      switch (map.kind) {
        case MapKind::cast: break;  // done above
        case MapKind::activate: run_vectorised<Activate>(x.data(), map.activation, n); break;
        case MapKind::activate_grad:
          run_vectorised<ActivateGrad>(x.data(), static_cast<const float*>(y.data()), map.activation, n);
          break;
        case MapKind::add:
          run_vectorised<ScaleAndAdd>(x.data(), static_cast<const float*>(x.data()), map.alpha,
                                      static_cast<const float*>(y.data()), map.beta, n);
          break;
      }
      narrow_block(x.data(), out.data(), n);
      std::memcpy(at<T>(map.out, first), out.data(), bytes_of<T>(n));
    }
  });
}

void column_sum_now(const ColumnSum& sum) {
  with_float_type(sum.dtype, [&]<typename In>(In) {
    // A strip of columns at a time, so that its sums stay in the L1 cache however wide the rows are.
    for (std::int64_t first = 0; first < sum.columns; first += block_elements) {
      const std::int64_t n = std::min(block_elements, sum.columns - first);
      float* const out = sum.out + first;
      if (!sum.accumulate) std::fill_n(out, n, 0.0F);
      for (std::int64_t row = 0; row < sum.rows; ++row) add_block(out, at<In>(sum.x, row * sum.columns + first), n);
    }
  });
}

void widen(DType dtype, const void* from, float* to, std::int64_t count) {
  with_cast_type(dtype, [&]<typename From>(From) { widen_block(static_cast<const From*>(from), to, count); });
}

void finish_row(const float* sums, const void* addend, void* out, DType dtype, const void* bias, float beta,
                Activation activation, std::int64_t count) {
  with_float_type(dtype, [&]<typename Out>(Out) {
    Block<float> row;
    Block<float> old;
    for (std::int64_t first = 0; first < count; first += block_elements) {
      const std::int64_t n = std::min(block_elements, count - first);
      std::memcpy(row.data(), sums + first, bytes_of<float>(n));
      if (beta != 0) {
        widen_block(at<Out>(addend, first), old.data(), n);
        run_vectorised<ScaleAndAdd>(row.data(), static_cast<const float*>(row.data()), 1.0F,
                                    static_cast<const float*>(old.data()), beta, n);
      }
      if (bias != nullptr) add_block(row.data(), at<Out>(bias, first), n);
      run_vectorised<Activate>(row.data(), activation, n);
      narrow_block(row.data(), at<Out>(out, first), n);
    }
  });
}

void finish_row(const double* sums, const void* addend, void* out, DType dtype, const void* bias, double beta,
                Activation activation, std::int64_t count) {
  const auto finish = [&]<typename Out>(Out) {
    Out* const row = static_cast<Out*>(out);
    for (std::int64_t i = 0; i < count; ++i) {
      double x = sums[i];
      if (beta != 0) x += beta * static_cast<double>(static_cast<const Out*>(addend)[i]);
      if (bias != nullptr) x += static_cast<double>(static_cast<const Out*>(bias)[i]);
      Activate::loop(&x, activation, 1);
      row[i] = static_cast<Out>(x);
    }
  };
  dtype == DType::f64 ? finish(double{}) : finish(float{});
}

const char* host_vector_isa() noexcept { return vector_isa_name(); }

}  // namespace tandem

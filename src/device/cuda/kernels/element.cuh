// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <type_traits>

#include "tandem/base/dtype.hpp"

namespace tandem::cuda {

/// The type that stores a dtype in a kernel.
template <DType> struct ElementOf;
template <> struct ElementOf<DType::f32> {
  using type = float;
};
template <> struct ElementOf<DType::f16> {
  using type = __half;
};
template <> struct ElementOf<DType::bf16> {
  using type = __nv_bfloat16;
};
template <> struct ElementOf<DType::f8e4m3> {
  using type = __nv_fp8_e4m3;
};
template <> struct ElementOf<DType::f8e5m2> {
  using type = __nv_fp8_e5m2;
};
template <> struct ElementOf<DType::f64> {
  using type = double;
};
template <> struct ElementOf<DType::i32> {
  using type = std::int32_t;
};
template <> struct ElementOf<DType::i64> {
  using type = std::int64_t;
};
template <> struct ElementOf<DType::u8> {
  using type = std::uint8_t;
};
template <DType dtype> using Element = typename ElementOf<dtype>::type;

/// The accumulator type of sums: fp32 for f32 and all narrower floats, f64 for f64, for integers the unsigned type of
/// the same width (so that they wrap).
template <typename T> struct AccumulatorOf {
  using type = std::make_unsigned_t<T>;
};
template <> struct AccumulatorOf<float> {
  using type = float;
};
template <> struct AccumulatorOf<__half> {
  using type = float;
};
template <> struct AccumulatorOf<__nv_bfloat16> {
  using type = float;
};
template <> struct AccumulatorOf<__nv_fp8_e4m3> {
  using type = float;
};
template <> struct AccumulatorOf<__nv_fp8_e5m2> {
  using type = float;
};
template <> struct AccumulatorOf<double> {
  using type = double;
};
template <typename T> using Accumulator = typename AccumulatorOf<T>::type;

template <typename T> __device__ Accumulator<T> widen(T x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(x);
  } else {
    return static_cast<Accumulator<T>>(x);
  }
}

/// Rounds to nearest, ties to even, if the result is floating-point; of 8 bits, no further than to its largest number.
template <typename To, typename From> __device__ To narrow(From x) {
  if constexpr (std::is_same_v<To, __half>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<To, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return static_cast<To>(x);
  }
}

/// N elements that are loaded and stored in accesses of up to 16 bytes.
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T values[N];
};

/// Plain loads and stores, on purpose. What peers wrote was made visible by an acquire at system scope, in an earlier
/// kernel of the stream (each kernel starts with a clean L1) or in this one (see meet_peers). The read-only path
/// (ld.global.nc) would be wrong if a destination is also a source; no pointer here is both const and __restrict__, so
/// the compiler does not choose it.
template <typename T, int N> __device__ Pack<T, N> load_pack(const void* base, std::int64_t first) {
  return *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(base) + first);
}

/// A pack in flight, as words: each narrow element by itself would take a register.
template <typename T, int N> struct alignas(Pack<T, N>) PackBits {
  static constexpr std::size_t bytes = sizeof(Pack<T, N>);
  using Word = std::conditional_t<bytes % 4 == 0, std::uint32_t,
                                  std::conditional_t<bytes % 2 == 0, std::uint16_t, std::uint8_t>>;
  Word words[bytes / sizeof(Word)];

  [[nodiscard]] __device__ Pack<T, N> unpacked() const {
    Pack<T, N> pack;
    std::memcpy(&pack, words, bytes);
    return pack;
  }
};

template <typename T, int N> __device__ PackBits<T, N> load_bits(const void* base, std::int64_t first) {
  return *reinterpret_cast<const PackBits<T, N>*>(static_cast<const T*>(base) + first);
}

template <typename T, int N> __device__ void store_bits(void* base, std::int64_t first, const PackBits<T, N>& bits) {
  *reinterpret_cast<PackBits<T, N>*>(static_cast<T*>(base) + first) = bits;
}

template <typename T, int N> __device__ void store_pack(void* base, std::int64_t first, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(static_cast<T*>(base) + first) = pack;
}

[[nodiscard]] inline bool aligned16(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tandem/device/gemm.hpp"

namespace tandem {

/// One matrix of weights as oneDNN's kernels want it, for several products: `dnnl_sgemm` packs the weights anew in
/// each, or is slow where a row's bytes are a multiple of 2 KiB.
class PackedWeights {
 public:
  /// On a CPU without AVX-512 only products of up to so many rows have weights packed.
  static constexpr std::int64_t most_padded_rows = 340;

  PackedWeights() = default;
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;
  virtual ~PackedWeights() = default;

  /// For products of this spec, of which `members` threads do parts at once; null where packing gains nothing, or
  /// cannot be had: for other than dense f32 operands, or without oneDNN or its headers of the same version when this
  /// was compiled.
  [[nodiscard]] static std::unique_ptr<PackedWeights> make(const GemmSpec& spec, std::size_t members);

  /// The next product packs the weights again: they may have changed. Not while one runs.
  void forget() noexcept { packed_ = false; }

  /// D[m, n] = A[m, k] · op(B), dense but for B, on the calling thread, which is this member for so long. False, and
  /// nothing is done, where plain products are as good; `shared`: others take the same weights. Throws DeviceError.
  [[nodiscard]] virtual bool multiply(int member, std::int64_t m, const float* a, const float* b, float* d,
                                      bool shared) = 0;

 protected:
  bool packed_ = false;
};

}  // namespace tandem

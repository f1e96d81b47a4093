// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tandem/device/gemm.hpp"

namespace tandem {

/// One weight matrix, packed in the layout of oneDNN's kernels once for several GEMMs: `dnnl_sgemm` packs the weights
/// in each, or is slow if the row stride is a multiple of 2 KiB.
class PackedWeights {
 public:
  /// On a CPU without AVX-512, only GEMMs of up to this many rows pack weights.
  static constexpr std::int64_t most_padded_rows = 340;

  PackedWeights() = default;
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;
  virtual ~PackedWeights() = default;

  /// For GEMMs of this spec, whose parts are done by up to `members` threads at a time. Null if packing is no faster or
  /// not possible: unless A and D are dense f32, A is not transposed and alpha is 1; without oneDNN; or if this was
  /// compiled without its headers, or with those of a newer or another major version.
  [[nodiscard]] static std::unique_ptr<PackedWeights> make(const GemmSpec& spec, std::size_t members);

  /// Makes the next GEMM pack the weights again, since they may have changed. Not while one runs.
  void forget() noexcept { packed_ = false; }

  /// D[m, n] = A[m, k] · op(B), A and D dense, on the calling thread, which is `member` meanwhile. If packing would not
  /// pay, does nothing and returns false; `shared`: other GEMMs use the same weights. Throws DeviceError.
  [[nodiscard]] virtual bool multiply(int member, std::int64_t m, const float* a, const float* b, float* d,
                                      bool shared) = 0;

 protected:
  bool packed_ = false;
};

}  // namespace tandem

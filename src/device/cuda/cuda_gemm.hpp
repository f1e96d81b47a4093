// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/gemm.hpp"
#include "tandem/device/reduce.hpp"

#include "device/cuda/blas_handle.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/cuda/properties.hpp"

namespace tandem::cuda {

/// A product by cuBLASLt, and by a kernel of our own where cuBLASLt has none (odd alignments of 16-bit operands) or
/// nothing is to be multiplied (k = 0).
///
/// The constructor asks cuBLASLt's heuristic for each of `planned_rows`, takes what it ranks first or, of large
/// products, whose tiles fit best (`best_tile`), and runs that on scratch memory, without and with something to add: a
/// run picks among those alone, so that it never loads a kernel, which can deadlock against one that waits for a peer.
/// Which of them fits a run's (m, k, alignment) is found on the host, on first use, and kept.
///
/// An algorithm's name is its public attributes. It is looked up among what the heuristic offers for the very product,
/// never rebuilt from them: whatever a file says, nothing runs that the library did not propose for it, and what it
/// has beyond those attributes is not lost.
///
/// cuBLASLt's GELU is the tanh form, by the hardware's approximation; it is used for 16-bit outputs, whose rounding is
/// coarser, also where what it is applied to is kept, on 16 bytes. (Its epilogue for the gradient is slower than a
/// plain product and a kernel: docs/performance/products.md.) Otherwise the activation is a kernel of its own behind
/// the product, which for gelu_erf into 16 bits means two roundings, as in the two operations written one after the
/// other. So may a beta, and a bias beside it: some of cuBLASLt's kernels round the product before they add it to C,
/// and that sum before they add the bias.
class CudaGemm final : public Gemm {
 public:
  /// Throws InvalidArgument, Unsupported or OutOfMemory.
  CudaGemm(std::shared_ptr<const Context> context, std::shared_ptr<const BlasHandle> blas, const Properties& gpu,
           const GemmSpec& spec, std::span<const GemmAlgorithm> algorithms);
  ~CudaGemm() override;

  void run(StreamRef stream, const GemmOperands& operands) override;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::vector<std::string> algorithms(std::int64_t m) const override;

 private:
  /// An algorithm that has run once, and what it was chosen for.
  struct Choice {
    std::int64_t m;
    bool aligned;   ///< wants every row of every operand on 16 bytes
    bool named;     ///< by who made this, in place of what else would run
    bool by_tiles;  ///< in place of the heuristic's first
    cublasLtMatmulAlgo_t algorithm;
  };
  /// What cuBLASLt wants to know of one product. It computes column-major: our D, read so, is Dᵀ = op(B)ᵀ · op(A)ᵀ, so
  /// its first operand is our B, and its rows are our n.
  struct Problem {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t b;
    cublasLtMatrixLayoutOpaque_t a;
    cublasLtMatrixLayoutOpaque_t d;
  };

  /// Elements from row to row, as stored; what the spec leaves open is dense for the run's extents.
  struct Pitches {
    std::int64_t a;
    std::int64_t b;
    std::int64_t d;
  };

  [[nodiscard]] Pitches pitches(std::int64_t m, std::int64_t k, std::int64_t lda = 0) const noexcept;
  [[nodiscard]] bool rows_on_16_bytes(const Pitches& ld) const noexcept;
  /// Those that an algorithm for `m` is chosen by.
  [[nodiscard]] Pitches planned_pitches(std::int64_t m, bool aligned) const noexcept;
  /// `aux` is null where the epilogue leaves it alone.
  [[nodiscard]] Problem problem(std::int64_t m, std::int64_t k, const Pitches& ld, const void* bias,
                                const void* aux) const;
  void choose(std::span<const GemmAlgorithm> algorithms);
  /// At most the heuristic's best `most` for `m`, best first. `scratch` is an address on 16 bytes.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> ask_heuristic(std::int64_t m, bool aligned, int most,
                                                                const std::byte* scratch) const;
  /// Which of the heuristic's best few for `m` to take: mostly the first.
  [[nodiscard]] std::size_t first_of(std::span<const cublasLtMatmulAlgo_t> best, std::int64_t m) const;
  /// The heuristic's best few, that one in front.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> ranked(std::int64_t m, bool aligned, const std::byte* scratch) const;
  /// Adds the one to take unless there is none or it is that of the next larger m.
  void add_first(std::int64_t m, bool aligned, const std::byte* scratch);
  /// Adds the one of that name, which counts for more than the first for the same m.
  void add_named(const GemmAlgorithm& given, bool aligned, const std::byte* scratch);
  /// `value` says its type. What an older library does not know is 0, as what it leaves undefined.
  template <typename T>
  [[nodiscard]] T attribute(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which,
                            T value) const;
  [[nodiscard]] std::string name_of(const cublasLtMatmulAlgo_t& algorithm) const;
  [[nodiscard]] std::size_t scratch_bytes() const;
  void multiply(Problem& problem, const Choice& choice, const GemmOperands& operands, float beta,
                cudaStream_t stream) const;
  /// Index into `choices_`, -1 for the tiled kernel.
  [[nodiscard]] int choice_for(Problem& problem, std::int64_t m, std::int64_t k, std::int64_t lda, bool aligned);
  void run_tiled(const GemmOperands& operands, std::int64_t m, std::int64_t k, float beta, cudaStream_t stream) const;
  /// By one of the choices, those for `aligned` rows included or not; false where none fits.
  bool multiply_by_library(const GemmOperands& operands, std::int64_t m, std::int64_t k, float beta, bool aligned,
                           cudaStream_t stream);
  /// What is applied before the sums are rounded, unless the library sees to an auxiliary. Else that is kept as
  /// rounded, and the activation comes after it.
  [[nodiscard]] Activation activation_of_sums() const noexcept {
    return spec().auxiliary == Auxiliary::none ? spec().activation : Activation::none;
  }
  /// From the sums at `sums`, which may be D or the auxiliary itself, to D.
  void activate(void* d, const void* sums, void* aux, std::int64_t m, cudaStream_t stream) const;
  /// On m dense rows of D's sizes.
  void map(MapKind kind, void* out, const void* x, const void* y, std::int64_t m, cudaStream_t stream) const;
  void apply_activation(void* d, std::int64_t m, cudaStream_t stream) const;

  std::shared_ptr<const Context> context_;
  std::shared_ptr<const BlasHandle> blas_;
  int multiprocessors_;
  bool is_hopper_;
  bool fused_activation_ = false;
  bool fused_auxiliary_ = false;  ///< both outputs by the epilogue of what is on 16 bytes
  DeviceMemory workspace_;
  std::vector<Choice> choices_;
  std::mutex mutex_;
  std::map<std::array<std::int64_t, 4>, int> known_;  // (m, k, lda, aligned) → choice_for
};

}  // namespace tandem::cuda

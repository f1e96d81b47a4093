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

#include "device/cuda/blas_handle.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/cuda/gemm_kernels.hpp"
#include "device/cuda/properties.hpp"

namespace tandem::cuda {

/// A GEMM by cuBLASLt, or by a kernel of our own if cuBLASLt has none (unaligned 16-bit operands; many of 8 bits) or
/// there is nothing to multiply (k = 0).
///
/// For each of `planned_rows` the constructor asks cuBLASLt's heuristic, chooses the algorithm that it ranks first, or
/// the one whose tiles fit best (`best_tile`), and runs it on scratch memory with beta = 0 and 1. Later runs use only
/// these algorithms, so that none loads a kernel, which can deadlock if a running kernel waits for a peer. Which of
/// them fits a run's (m, k, lda, alignment) is determined on the host, on first use, and cached.
///
/// An algorithm's name consists of its public attributes. It is looked up among those that the heuristic offers for
/// this GEMM, never rebuilt from its attributes: so a damaged tuning file cannot run what the library did not propose,
/// and what the algorithm has beyond its public attributes is kept.
///
/// cuBLASLt's GELU is the tanh form with the hardware's approximate tanh. It is used for 16-bit outputs, whose rounding
/// error is larger; also with Auxiliary::output, if all operands are 16-byte aligned. (Its gradient epilogue is slower
/// than a plain GEMM and a kernel: docs/performance/products.md.) Otherwise a separate kernel after the GEMM applies
/// the activation; for gelu_erf with 16-bit outputs that means two roundings, as if the two operations were written
/// separately. A beta, and a bias in addition to it, may add roundings as well: some of cuBLASLt's kernels round the
/// product before they add it to C, and that sum before they add the bias.
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
  /// An algorithm that has been run once, and the runs that it was chosen for.
  struct Choice {
    std::int64_t m;
    bool aligned;   ///< requires every row of every operand to be 16-byte aligned
    bool named;     ///< given by the caller, instead of the default
    bool by_tiles;  ///< chosen by `best_tile`, instead of the heuristic's first
    cublasLtMatmulAlgo_t algorithm;
  };
  /// cuBLASLt's descriptors of one GEMM. It is column-major: our row-major D is its Dᵀ = op(B)ᵀ · op(A)ᵀ, so its first
  /// operand is our B, and its rows are our columns (n).
  struct Problem {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t b;
    cublasLtMatrixLayoutOpaque_t a;
    cublasLtMatrixLayoutOpaque_t d;
  };

  /// Operands whose addresses are part of a Problem.
  struct Addresses {
    const void* bias;
    const void* aux;  ///< null unless the epilogue writes it
    const float* a_scale;
    const float* b_scale;
  };

  /// Leading dimensions; those that are 0 in the spec are dense for the run.
  [[nodiscard]] GemmPitches pitches(std::int64_t m, std::int64_t k, std::int64_t lda = 0) const noexcept;
  [[nodiscard]] bool rows_on_16_bytes(const GemmPitches& ld) const noexcept;
  /// The leading dimensions with which an algorithm for `m` is chosen.
  [[nodiscard]] GemmPitches planned_pitches(std::int64_t m, bool aligned) const noexcept;
  [[nodiscard]] Problem problem(std::int64_t m, std::int64_t k, const GemmPitches& ld, const Addresses& at) const;
  /// Operands in scratch memory that is 16-byte aligned, to choose an algorithm with.
  [[nodiscard]] Addresses trial(const std::byte* scratch, bool aligned) const;
  /// Whether the library, as it was compiled against and as it was loaded, has this scaling.
  [[nodiscard]] bool library_scales() const;
  void choose(std::span<const GemmAlgorithm> algorithms);
  /// The heuristic's best algorithms for `m`, best first, at most `most`. `scratch` must be 16-byte aligned.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> ask_heuristic(std::int64_t m, bool aligned, int most,
                                                                const std::byte* scratch) const;
  /// The index of the default among the heuristic's best few for `m`: mostly 0.
  [[nodiscard]] std::size_t first_of(std::span<const cublasLtMatmulAlgo_t> best, std::int64_t m) const;
  /// The heuristic's best few, with the default moved to the front.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> ranked(std::int64_t m, bool aligned, const std::byte* scratch) const;
  /// Adds the default choice for `m`, unless there is none or it equals the previous choice, for the next larger m.
  void add_first(std::int64_t m, bool aligned, const std::byte* scratch);
  /// Adds the algorithm of that name, which takes precedence over the default for the same m.
  void add_named(const GemmAlgorithm& given, bool aligned, const std::byte* scratch);
  /// `value` only gives the type. Attributes that an older library does not know are 0, like undefined ones.
  template <typename T>
  [[nodiscard]] T attribute(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which,
                            T value) const;
  [[nodiscard]] std::string name_of(const cublasLtMatmulAlgo_t& algorithm) const;
  [[nodiscard]] std::size_t scratch_bytes() const;
  void multiply(Problem& problem, const Choice& choice, const GemmOperands& operands, float beta,
                cudaStream_t stream) const;
  /// An index into `choices_`, or -1 if the tiled kernel must be used.
  [[nodiscard]] int choice_for(Problem& problem, std::int64_t m, std::int64_t k, std::int64_t lda, bool aligned);
  /// Runs one of the choices, including those for aligned rows if `aligned`; false if none fits.
  bool multiply_by_library(const GemmOperands& operands, std::int64_t m, std::int64_t k, float beta, bool aligned,
                           cudaStream_t stream);
  /// Where the library reads a scale: where it is, or, since the library takes none that is not 16-byte aligned, where
  /// `copy_scale` copies it. `which`: 0 for A's, 1 for B's.
  [[nodiscard]] const float* place_of(const float* scale, std::size_t which) const noexcept;
  void copy_scale(const float* scale, const float* place, std::int64_t rows, cudaStream_t stream) const;
  /// From where copies of A's scales begin to those of B's; 0 without scaling.
  [[nodiscard]] std::size_t scale_pitch() const noexcept;
  /// The library's epilogue takes no bias in f32 for 8-bit operands.
  [[nodiscard]] bool fuses_bias() const noexcept { return !is_float8(spec().dtype) || spec().out_dtype != f32; }

  std::shared_ptr<const Context> context_;
  std::shared_ptr<const BlasHandle> blas_;
  GemmKernels kernels_;
  int multiprocessors_;
  bool is_hopper_;
  bool fused_activation_ = false;
  bool fused_auxiliary_ = false;  ///< aligned runs write D and the auxiliary in the epilogue
  DeviceMemory workspace_;        ///< the library's, and behind it room for copies of scales
  std::vector<Choice> choices_;
  std::mutex mutex_;
  std::map<std::array<std::int64_t, 4>, int> known_;  // (m, k, lda, aligned) → choice_for
};

}  // namespace tandem::cuda

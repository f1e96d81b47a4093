// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/concepts.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/export.hpp"
#include "tandem/device/stream.hpp"

namespace tandem {

/// The activation that follows the bias. `gelu_erf` is x·Φ(x); `gelu_tanh` is its usual approximation by tanh.
enum class Activation : std::uint8_t { none, gelu_erf, gelu_tanh };

[[nodiscard]] TANDEM_API const char* name(Activation activation) noexcept;

/// An additional tensor, with the result's sizes and dtype, that training keeps for an activation, as in cuBLASLt's
/// epilogues GELU_AUX and DGELU.
enum class Auxiliary : std::uint8_t {
  none,
  output,    ///< written: the input of the activation, rounded to the result's dtype
  gradient,  ///< read, as written by `output`: the result is the sum times the activation's derivative there
};

[[nodiscard]] TANDEM_API const char* name(Auxiliary auxiliary) noexcept;

/// What the values of 8-bit operands are multiplied by, in f32: what they were divided by when they were quantized.
enum class Scaling : std::uint8_t {
  none,        ///< nothing
  per_tensor,  ///< one factor for all of A, one for all of B, as in torch._scaled_mm
  per_row,     ///< one for each row of A, one for each column of B: each row of a weight stored [n, k]
};

[[nodiscard]] TANDEM_API const char* name(Scaling scaling) noexcept;

/// D[m, n] = activation(alpha · op(A)[m, k] · op(B)[k, n] + beta · C + bias[n]), all row-major, where C is D's previous
/// contents unless a run passes another one, and A and B are multiplied by their scales first. Sums are accumulated in
/// fp32 (f64 for f64); if D has 16 bits, cuBLASLt may round the product before adding beta · C or the bias, and that
/// sum before adding the other one. A and B are f32, f16 or bf16 (f64 on the host), both alike, and D and the bias are
/// that or f32; or A and B are f8e4m3 or f8e5m2, alike or not, and D and the bias f32, f16 or bf16. m and k are upper
/// bounds: a run may use less. With Auxiliary::gradient it is D = (alpha · op(A) · op(B) + beta · C + bias) ·
/// activation'(aux). With Auxiliary::output D is the activation of what aux gets or, if cuBLASLt writes aux, may be
/// that of the sum before it is rounded.
///
/// 8-bit operands on a GPU: tensor cores keep some 14 bits of a sum of their products, and such sums are added in fp32
/// (see `fast_accum`). Hopper's take an A that is stored [m, k] and a B that is stored [n, k], one of them f8e4m3, if
/// the rows and the addresses of A, B, C, D, bias and aux are multiples of 16 bytes. A kernel that is many times slower
/// does all else, and `describe` says so.
struct GemmSpec {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;                     ///< A is stored [k, m]
  bool transpose_b = false;                     ///< B is stored [n, k], as PyTorch stores a linear layer's weight
  DType dtype = f32;                            ///< A's
  DType out_dtype = f32;                        ///< D's, the bias' and aux'
  std::optional<DType> b_dtype = std::nullopt;  ///< B's, if not `dtype`: with one 8-bit dtype the other
  Scaling scaling = Scaling::none;              ///< 8-bit operands only
  /// For 8-bit operands: allows a GPU to sum all of k with its tensor cores' bits, as use_fast_accum in PyTorch, which
  /// is faster. The host sums in fp32 all the same.
  bool fast_accum = false;
  /// For f32: allows A and B to be rounded to TF32 (11 significant bits), which GPUs multiply several times faster;
  /// sums stay in fp32. The host, and GEMMs for which the library has no TF32 kernel, compute in fp32 all the same.
  bool tf32 = false;
  bool bias = false;
  Activation activation = Activation::none;
  Auxiliary auxiliary = Auxiliary::none;  ///< requires an activation, and dense rows of D
  float alpha = 1.0F;
  float beta = 0.0F;
  /// CUDA: how many SMs the GEMM leaves to concurrent kernels, at most all but one. With 0 it takes what is free,
  /// usually all SMs until it ends: then a kernel that starts later, or whose blocks do not all fit, waits for the GEMM
  /// to end, and blocks of the GEMM that do not fit wait in turn for that kernel to end.
  int leave_sms = 0;
  std::int64_t lda = 0;  ///< elements from one stored row of A to the next; 0: dense, for each run's extents
  std::int64_t ldb = 0;
  std::int64_t ldd = 0;

  [[nodiscard]] DType dtype_of_b() const noexcept { return b_dtype.value_or(dtype); }
};

/// How a run's B relates to that of other runs of the same Gemm, e.g. if one GEMM is split by rows into several runs. A
/// hint: a device that packs B for its kernels may do so once for all of them. Results are equal up to rounding.
enum class Weights : std::uint8_t {
  once,   ///< not shared with another run
  first,  ///< runs with `again` may follow; B must not change before the last of them is done
  again,  ///< the same B, unchanged, as in the last run with `first`
};

/// One run's operands, and what it has of its own instead of the spec's. If k is 0, nothing is multiplied, but beta,
/// bias and activation still apply to C.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* c = nullptr;  ///< stored like D, not overlapping it; null: D's contents. Not with an auxiliary
  const void* bias = nullptr;
  void* aux = nullptr;             ///< [m, n] of `out_dtype`, dense; written or only read, as GemmSpec::auxiliary says
  const float* a_scale = nullptr;  ///< in the device's memory: 1 or m of them, as GemmSpec::scaling says
  const float* b_scale = nullptr;  ///< 1 or n
  std::optional<std::int64_t> m = std::nullopt;
  std::optional<std::int64_t> k = std::nullopt;
  std::int64_t lda = 0;  ///< 0: the spec's, and if that is 0 too, dense for this run's extents
  std::optional<float> beta = std::nullopt;
  Weights weights = Weights::once;
};

/// One of a library's algorithms for a GEMM, by its name in `Gemm::algorithms`. It is used for runs of at most `m`
/// rows, and of more rows than the next smaller m for which an algorithm is chosen.
struct GemmAlgorithm {
  std::int64_t m = 0;
  std::string name;

  friend bool operator==(const GemmAlgorithm&, const GemmAlgorithm&) = default;
};

/// The values of m for which algorithms are chosen when a GEMM is planned, in descending order: m, 3/4 m, 1/2 m, 3/8 m,
/// and so on. Runs with another m use the choice for the next larger one.
[[nodiscard]] TANDEM_API std::vector<std::int64_t> planned_rows(std::int64_t m);

/// A planned local GEMM: algorithm chosen, workspace allocated, library code loaded. Runs are asynchronous and allocate
/// no device memory; on the host, the first run with a given number of rows and shared weights may set up a oneDNN
/// primitive. Runs of one Gemm share its workspace, so they must be ordered, by their stream or by the caller, and the
/// Gemm must outlive its queued runs and the graphs that recorded one.
class TANDEM_API Gemm {
 public:
  virtual ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// Throws InvalidArgument for an m or k that is negative or larger than the spec's, an lda that is neither 0 nor as
  /// long as a stored row, a C together with an auxiliary, and an operand that is needed and missing.
  virtual void run(StreamRef stream, const GemmOperands& operands) = 0;
  /// "cublasLt algo 21, workspace 32 MiB", "oneDNN sgemm, bf16 through f32 panels", …
  [[nodiscard]] virtual std::string describe() const = 0;
  /// The best few algorithms for `m` rows: first the one that is used unless Device::gemm is given another, then the
  /// others as the library ranks them. A name means the same in another process with the same device model and library
  /// version. Empty if there is nothing to choose from. Throws InvalidArgument unless 0 ≤ m ≤ spec().m.
  [[nodiscard]] virtual std::vector<std::string> algorithms(std::int64_t m) const;
  [[nodiscard]] const GemmSpec& spec() const noexcept { return spec_; }

 protected:
  explicit Gemm(const GemmSpec& spec) : spec_(spec) {}

 private:
  GemmSpec spec_;
};
static_assert(Pinned<Gemm>);

}  // namespace tandem

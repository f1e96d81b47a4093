// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/dtype.hpp"
#include "tandem/base/export.hpp"
#include "tandem/device/stream.hpp"

namespace tandem {

/// What happens to a linear layer's sum after the bias. `gelu_erf` is x·Φ(x); `gelu_tanh` its usual approximation.
enum class Activation : std::uint8_t { none, gelu_erf, gelu_tanh };

[[nodiscard]] TANDEM_API const char* name(Activation activation) noexcept;

/// What training keeps of an activation: a tensor of the result's sizes and dtype beside it, as cuBLASLt's epilogues
/// GELU_AUX and DGELU have it.
enum class Auxiliary : std::uint8_t {
  none,
  output,    ///< is written: what the activation was applied to, as rounded
  gradient,  ///< is read, as such an output: the result is the sum times the activation's derivative there
};

[[nodiscard]] TANDEM_API const char* name(Auxiliary auxiliary) noexcept;

/// D[m, n] = activation(alpha · op(A)[m, k] · op(B)[k, n] + beta · C + bias[n]), all row-major, where C is what D holds
/// unless a run gives another one. Sums are kept in fp32 (f64 for f64); where D has 16 bits, CUDA's library may round
/// the product before it adds beta · C or the bias, and that sum before it adds the other one. A and B are of `dtype`:
/// f32, f16 or bf16 (f64 on the host); D and the bias of `out_dtype`, which is `dtype` or f32. m and k are upper
/// bounds: a run may use less. With Auxiliary::gradient it is D = (alpha · op(A) · op(B) + beta · C + bias) ·
/// activation'(aux).
struct GemmSpec {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;  ///< A is stored [k, m]
  bool transpose_b = false;  ///< B is stored [n, k], as PyTorch stores a linear layer's weight
  DType dtype = f32;
  DType out_dtype = f32;
  /// Of f32: A and B may be rounded to the 11 significant bits of TF32, which GPUs multiply several times faster. Sums
  /// stay in fp32. A permission: the host, and a product for which the library has no such kernel, compute in fp32.
  bool tf32 = false;
  bool bias = false;
  Activation activation = Activation::none;
  Auxiliary auxiliary = Auxiliary::none;  ///< goes with an activation, and with dense rows of D
  float alpha = 1.0F;
  float beta = 0.0F;
  /// CUDA: how many multiprocessors the product leaves to what runs beside it, all but one at most. With 0 it takes
  /// what there is, mostly all and until it ends, so that a kernel that comes later, or finds no place for some of its
  /// blocks, waits for that; and blocks of the product that find none wait in turn for the kernel to end.
  int leave_sms = 0;
  std::int64_t lda = 0;  ///< elements from a row of A as it is stored to the next; 0: dense, by each run's extents
  std::int64_t ldb = 0;
  std::int64_t ldd = 0;
};

/// How a run's B relates to that of other runs of the same Gemm, as where one product is done in pieces, by rows. A
/// hint: a device that arranges B for its kernels may do it once for all of them. Results are the same up to rounding.
enum class Weights : std::uint8_t {
  once,   ///< no other run's
  first,  ///< runs that say `again` may follow, and nothing changes B before the last of them
  again,  ///< the very B of the last run that said `first`
};

/// One run's operands. `m` and `k` are this run's extents, -1 for the spec's; with either 0 nothing is multiplied,
/// but beta, bias and activation still apply to C.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* c = nullptr;  ///< as D is stored, apart from it; null: what D holds. Not with an auxiliary
  const void* bias = nullptr;
  void* aux = nullptr;  ///< [m, n] of `out_dtype`, dense; by GemmSpec::auxiliary it is written, or only read
  std::int64_t m = -1;
  std::int64_t k = -1;
  std::int64_t lda = 0;  ///< this run's; 0: the spec's, and where that is 0 too, dense for this run's extents
  float beta = -1.0F;    ///< this run's beta; negative: the spec's
  Weights weights = Weights::once;
};

/// One of a library's algorithms for a product, by the name that `Gemm::algorithms` gives it. It is chosen for runs of
/// up to `m` rows, down to the next smaller m that has a choice.
struct GemmAlgorithm {
  std::int64_t m = 0;
  std::string name;

  friend bool operator==(const GemmAlgorithm&, const GemmAlgorithm&) = default;
};

/// The m that algorithms are chosen for when a product is made, in falling order: all of it and three quarters of it,
/// half of that, and so on. Runs of other m take the next larger one's.
[[nodiscard]] TANDEM_API std::vector<std::int64_t> planned_rows(std::int64_t m);

/// A local matrix product, prepared: algorithm chosen, workspace allocated, library code loaded. Running it
/// is asynchronous and allocates no memory of the device; on the host, a first run of so many rows with weights that
/// several share may set up oneDNN's product for them. Two runs of one Gemm are ordered by their stream or by the
/// caller, since they share the workspace, which also goes with it: it outlives its runs that are queued, and the
/// graphs that recorded one.
class TANDEM_API Gemm {
 public:
  virtual ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// Throws InvalidArgument for more rows or a larger k than the spec's, and for a C beside an auxiliary.
  virtual void run(StreamRef stream, const GemmOperands& operands) = 0;
  /// "cublasLt algo 21, workspace 32 MiB", "oneDNN sgemm, bf16 through f32 panels", …
  [[nodiscard]] virtual std::string describe() const = 0;
  /// The best few algorithms for `m` rows: in front what runs unless Device::gemm is told otherwise, the others as the
  /// library ranks them. A name means the same to another process with the same model of device and version of the
  /// library. Empty where there is nothing to choose from. Throws InvalidArgument unless 0 ≤ m ≤ spec().m.
  [[nodiscard]] virtual std::vector<std::string> algorithms(std::int64_t m) const;
  [[nodiscard]] const GemmSpec& spec() const noexcept { return spec_; }

 protected:
  explicit Gemm(const GemmSpec& spec) : spec_(spec) {}

 private:
  GemmSpec spec_;
};

}  // namespace tandem

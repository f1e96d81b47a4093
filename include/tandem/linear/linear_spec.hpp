// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tandem/base/dtype.hpp"
#include "tandem/base/export.hpp"
#include "tandem/collective/shard.hpp"
#include "tandem/device/gemm.hpp"

namespace tandem {

/// How a matrix is stored: as [rows, columns] of the formula, or transposed. In BLAS notation (`tandem bench
/// --layout`), x and weight are NT if both are normal, NN for a transposed weight, TT for a transposed x, TN for both.
enum class Layout : std::uint8_t { normal, transposed };

/// A linear layer's GEMM y = x·Wᵀ over a team's ranks: M tokens in total, N outputs, K inputs. Each plan documents
/// which is split, and whether n and k are this rank's share or the whole: that share may differ, all else is equal on
/// all ranks. Rows split over ranks are the shards of `shard_of`: ceil(M / ranks) each; the last ones have fewer or
/// none.
///
/// x and W may have 8 bits, but for LinearWeightGradient. GPUs multiply them fast if both layouts are normal, k is a
/// multiple of 16, rows of y are multiples of 16 bytes, and one of the two is f8e4m3; else many times slower
/// (GemmSpec).
struct LinearSpec {
  std::int64_t m = 0;  ///< tokens of all ranks; an upper bound: a run may have fewer (equal on all ranks)
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType dtype = f32;                                 ///< f32, f16 or bf16: of all; f8e4m3 or f8e5m2: of x and W
  std::optional<DType> weight_dtype = std::nullopt;  ///< W's, if it is the other one of the two 8-bit dtypes
  std::optional<DType> out_dtype = std::nullopt;     ///< y's, bias' and aux' of 8-bit x: bf16 (nullopt), f16 or f32
  Scaling scaling = Scaling::none;                   ///< of 8-bit x and W; see LinearOperands
  bool fast_accum = false;                           ///< of 8-bit x and W; see GemmSpec
  bool tf32 = false;                                 ///< with f32: x and W may be rounded to TF32 (see GemmSpec::tf32)
  Layout x_layout = Layout::normal;                  ///< x as [tokens, K]; transposed: [K, tokens]
  Layout weight_layout = Layout::normal;             ///< W as [N, K], as PyTorch stores it; transposed: [K, N]
  bool bias = false;                                 ///< a vector of N, added once
  Activation activation = Activation::none;
  Auxiliary auxiliary = Auxiliary::none;  ///< AllGatherLinear only, with an activation: its aux for backward
  DType gradient_dtype = f32;             ///< LinearWeightGradient only: dtype of dW: f32, or `dtype`
  float alpha = 1.0F;
  float beta = 0.0F;  ///< y = activation(alpha · x·Wᵀ + beta · y + bias); see GemmSpec for Auxiliary::gradient

  [[nodiscard]] DType dtype_of_weight() const noexcept { return weight_dtype.value_or(dtype); }
  /// Also of bias and aux.
  [[nodiscard]] DType dtype_of_y() const noexcept { return out_dtype.value_or(is_float8(dtype) ? bf16 : dtype); }
};

/// How a plan runs, overriding its cost model's choices. Equal on all ranks.
struct LinearOptions {
  std::string algorithm = "auto";            ///< "auto", or one of `linear_algorithms`
  std::optional<int> groups = std::nullopt;  ///< if it `has_groups`: how many, 1 to most_groups
  /// AllGatherLinear only: the gathered x is available after a run. Unsupported with a transposed x.
  bool keep_gathered = false;
  /// CUDA: the most SMs for kernels that communicate or sum; nullopt: as many as is fast. If set, copies are left to
  /// copy engines: all copies to other GPUs, and on the same GPU those in batches (Device::copy_batch), which a
  /// pipeline's copies are not. Operations that gather also take 0, and then have no kernels but one-block ones that
  /// signal and wait; those that sum need at least 1. No effect on the host.
  std::optional<int> sms = std::nullopt;
  /// CUDA: how many SMs (all but one at most) the GEMMs leave to what runs concurrently with the plan, such as another
  /// plan's sums in a BulkOverlap (GemmSpec::leave_sms). The cost model ignores it, and tuned choices are not used. No
  /// effect on the host.
  int leave_sms = 0;
};

[[nodiscard]] TANDEM_API std::string to_string(const LinearSpec& spec);

}  // namespace tandem

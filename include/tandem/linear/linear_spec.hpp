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

/// How a matrix is stored: [rows, columns] as the formula has it, or transposed. In BLAS' letters, which `tandem bench
/// --layout` takes, x and weight are NT where both are normal, NN for a transposed weight, TT for a transposed x, TN
/// for both.
enum class Layout : std::uint8_t { normal, transposed };

/// A linear layer's product y = x·Wᵀ over a team's ranks: M tokens in all, N outputs, K inputs. Which of them is split,
/// and whether n and k are this rank's share or the whole, each plan says: that share may differ, all else is equal on
/// all ranks. Rows split over ranks are shards of ceil(M / ranks); the last ones are shorter or empty.
struct LinearSpec {
  std::int64_t m = 0;  ///< tokens of all ranks together; an upper bound: a run may have fewer (equal on all ranks)
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType dtype = f32;               ///< of x, W, bias and y: f32, f16 or bf16
  bool tf32 = false;               ///< of f32: what is multiplied may be rounded (see GemmSpec::tf32)
  Layout x = Layout::normal;       ///< x as [tokens, K]; transposed: [K, tokens]
  Layout weight = Layout::normal;  ///< W as [N, K], as PyTorch stores it; transposed: [K, N]
  bool bias = false;               ///< a vector of N, added once
  Activation activation = Activation::none;
  Auxiliary auxiliary = Auxiliary::none;  ///< AllGatherLinear alone, with an activation: what training keeps of that
  DType gradient_dtype = f32;             ///< LinearWeightGradient alone: of dW: f32, or `dtype`
  float alpha = 1.0F;
  float beta = 0.0F;  ///< y = activation(alpha · x·Wᵀ + beta · y + bias); see GemmSpec for Auxiliary::gradient
};

/// How a plan is to run, instead of as it chooses by its cost model. Equal on all ranks.
struct LinearOptions {
  std::string algorithm = "auto";            ///< "auto", or one of `linear_algorithms`
  std::optional<int> groups = std::nullopt;  ///< if it `has_groups`: how many, 1 to most_groups
  /// AllGatherLinear alone: the gathered x is available after a run. Unsupported with an x that is stored transposed.
  bool keep_gathered = false;
  /// CUDA: how many multiprocessors the kernels that communicate and add up may take; not set: as many as are fast.
  /// Copies are left to copy engines then: all that go to another GPU, and those in batches (Device::copy_batch), as a
  /// pipeline's are not, to a rank on the same one. Gathers take 0, too, and have no other kernels than those of one
  /// block that signal and wait; sums need 1. No effect on the host.
  std::optional<int> sms = std::nullopt;
  /// CUDA: how many multiprocessors, all but one at most, the products leave to what runs beside the plan, as another
  /// plan's sums in a BulkOverlap (GemmSpec::leave_sms). The cost model does not look at it, and nothing that was tuned
  /// counts. No effect on the host.
  int leave_sms = 0;
};

/// Rows [begin, begin + count).
using RowRange = Shard;
/// Those of M that belong to the team's rank `rank`.
[[nodiscard]] constexpr RowRange shard_rows(std::int64_t m, int ranks, int rank) noexcept {
  return shard_of(m, ranks, rank);
}

[[nodiscard]] TANDEM_API std::string to_string(const LinearSpec& spec);

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/team/team.hpp"

namespace tandem::tools {

/// Random elements to time with; they repeat after 2^16. Random, since a GPU's clocks depend on the bits that toggle.
[[nodiscard]] std::vector<std::byte> repeated_values(std::uint64_t key, std::int64_t count, DType dtype);

/// A GEMM of one rank alone, on random data: the computation with which something else is compared or overlapped.
class LocalProduct {
 public:
  /// Collective. Dense operands; the algorithms that a plan would use for this GEMM. Allocates so many copies of B, the
  /// weights, that they take at least `bytes_of_weights` in total.
  LocalProduct(const Team& team, const GemmSpec& spec, std::size_t bytes_of_weights = 0);
  /// Queues one run.
  void operator()(StreamRef stream) const { run(*gemm_, stream); }
  /// Queues one run with another Gemm of this spec, on one of the copies of B.
  void run(Gemm& gemm, StreamRef stream, std::size_t copy = 0) const;
  [[nodiscard]] const GemmSpec& spec() const noexcept { return gemm_->spec(); }
  [[nodiscard]] std::size_t copies() const noexcept { return copies_; }
  /// D. The stream must have been synchronized.
  [[nodiscard]] std::vector<std::byte> result() const;
  /// Overwrites D with values that no GEMM produces.
  void poison() const;

 private:
  Team team_;
  Buffer a_;
  std::size_t pitch_;  // bytes from one copy of B to the next
  std::size_t copies_;
  Buffer b_;
  Buffer d_;
  Buffer bias_;
  Buffer aux_;
  Buffer scales_;  // of 8-bit operands, A's and B's
  std::unique_ptr<Gemm> gemm_;
};

}  // namespace tandem::tools

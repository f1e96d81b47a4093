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

/// Random elements for what is timed, the same 2^16 over and over: a GPU's clocks depend on the bits that toggle.
[[nodiscard]] std::vector<std::byte> repeated_values(std::uint64_t key, std::int64_t count, DType dtype);

/// A product of one rank alone, of random data: the compute that something else is measured beside.
class LocalProduct {
 public:
  /// Collective. Dense operands. By the algorithms that a plan would take for it. With as many copies of B, the
  /// weights, as make at least so many bytes.
  LocalProduct(const Team& team, const GemmSpec& spec, std::size_t bytes_of_weights = 0);
  /// Queues one run.
  void operator()(StreamRef stream) const { run(*gemm_, stream); }
  /// The same by another Gemm of this spec, with one of the copies.
  void run(Gemm& gemm, StreamRef stream, std::size_t copy = 0) const;
  [[nodiscard]] const GemmSpec& spec() const noexcept { return gemm_->spec(); }
  [[nodiscard]] std::size_t copies() const noexcept { return copies_; }
  /// D. The stream has been synchronised.
  [[nodiscard]] std::vector<std::byte> result() const;
  /// Overwrites D with what no product gives.
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
  std::unique_ptr<Gemm> gemm_;
};

}  // namespace tandem::tools

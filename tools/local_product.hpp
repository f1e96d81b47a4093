// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/team/team.hpp"

namespace tandem::tools {

/// A product of one rank alone, of random data: the compute that something else is measured beside.
class LocalProduct {
 public:
  /// Collective. Dense operands; no bias. By the algorithms that a plan would take for it.
  LocalProduct(const Team& team, const GemmSpec& spec);
  /// Queues one run.
  void operator()(StreamRef stream) const { run(*gemm_, stream); }
  /// The same by another Gemm of this spec.
  void run(Gemm& gemm, StreamRef stream) const;
  /// D. The stream has been synchronised.
  [[nodiscard]] std::vector<std::byte> result() const;
  /// Overwrites D with what no product gives.
  void poison() const;

 private:
  Team team_;
  Buffer a_;
  Buffer b_;
  Buffer d_;
  std::unique_ptr<Gemm> gemm_;
};

}  // namespace tandem::tools

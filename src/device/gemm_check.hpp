// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tandem/device/gemm.hpp"

namespace tandem {

/// Throws InvalidArgument for a spec that is invalid on every device.
void check_gemm(const GemmSpec& spec);

/// Why a GEMM of these dtypes is invalid, or its scaling or fast_accum with them: "of f8e4m3 by bf16; allowed: …"; else
/// empty.
[[nodiscard]] std::string why_mixed(const GemmSpec& spec);

/// "bf16", "f8e4m3 by f8e5m2"
[[nodiscard]] std::string dtypes_of(const GemmSpec& spec);
/// The same, ", scaled per_row, fast_accum"
[[nodiscard]] std::string operands_of(const GemmSpec& spec);

/// What one run has, the spec's where it has none of its own. Throws what Gemm::run throws.
struct GemmRun {
  std::int64_t m;
  std::int64_t k;
  float beta;
};
[[nodiscard]] GemmRun check_gemm_run(const GemmSpec& spec, const GemmOperands& operands);

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/device/gemm.hpp"

namespace tandem {

/// Throws InvalidArgument where a spec makes no sense on any device.
void check_gemm(const GemmSpec& spec);

/// The sizes of one run. Throws InvalidArgument where they are more than was planned for.
struct GemmRun {
  std::int64_t m;
  std::int64_t k;
};
[[nodiscard]] GemmRun check_gemm_run(const GemmSpec& spec, const GemmOperands& operands);

}  // namespace tandem

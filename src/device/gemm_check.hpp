// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/device/gemm.hpp"

namespace tandem {

/// Throws InvalidArgument for a spec that is invalid on every device.
void check_gemm(const GemmSpec& spec);

/// The sizes of one run. Throws InvalidArgument if they exceed the spec's, or for a C together with an auxiliary.
struct GemmRun {
  std::int64_t m;
  std::int64_t k;
};
[[nodiscard]] GemmRun check_gemm_run(const GemmSpec& spec, const GemmOperands& operands);

}  // namespace tandem

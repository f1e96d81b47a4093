// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/gemm.hpp"

namespace tandem {

/// Throws InvalidArgument where a spec makes no sense on any device.
void check_gemm(const GemmSpec& spec);

}  // namespace tandem

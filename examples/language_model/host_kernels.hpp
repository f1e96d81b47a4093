// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "language_model/kernels.hpp"

namespace tandem::language_model {

/// Plain loops, run by Device::launch.
[[nodiscard]] std::unique_ptr<Kernels> make_host_kernels(Device& device);

}  // namespace tandem::language_model

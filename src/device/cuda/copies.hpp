// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <span>

#include "tandem/device/copy.hpp"

#include "device/cuda/properties.hpp"

namespace tandem::cuda {

/// Queues a copy, by the copy engines where the driver chooses so. Throws DeviceError.
void enqueue_copy(cudaStream_t stream, const Copy& copy, const Properties& properties);
/// Several at once: one call of the driver where it has one for that, which costs less than a call each.
void enqueue_copies(cudaStream_t stream, std::span<const Copy> copies, const Properties& properties);

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <span>

#include "tandem/device/copy.hpp"

#include "device/cuda/properties.hpp"

namespace tandem::cuda {

/// Queues a copy; the driver chooses between a copy engine and a kernel. Throws DeviceError.
void enqueue_copy(cudaStream_t stream, const Copy& copy, const Properties& properties);
/// Queues several copies, in any order: in one batched call if the driver has it, which costs less than one call each.
void enqueue_copies(cudaStream_t stream, std::span<const Copy> copies, const Properties& properties);

}  // namespace tandem::cuda

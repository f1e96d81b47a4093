// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/device.hpp"
#include "tandem/device/stream.hpp"

#include "device/cuda/properties.hpp"

namespace tandem::cuda {

// Everything that a run may need is created when the device opens: a kernel's first launch may load code, which may
// synchronize the context. That deadlocks if a running kernel waits for a peer that waits for work not yet queued here.

/// Loads all of Tandem's kernels. Throws Unsupported if this build has none for the GPU, and DeviceError.
void load_kernels(const Properties& properties, int device);
/// Makes the driver load its own kernels for copies and fills, and create its callback pools. Blocking.
void use_once(Device& device, StreamRef stream);

}  // namespace tandem::cuda

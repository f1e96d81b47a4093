// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/device.hpp"
#include "tandem/device/stream.hpp"

#include "device/cuda/properties.hpp"

namespace tandem::cuda {

// Everything that a run may need is made when the device opens: a kernel's first launch may load code, which may
// synchronise the context, and that never ends while a kernel waits for a peer whose signal is queued behind it.

/// Loads all of Tandem's kernels. Throws Unsupported where this build has none for the GPU, and DeviceError.
void load_kernels(const Properties& properties, int device);
/// Makes the driver load its own kernels for copies and fills, and make its pools for callbacks. Blocking.
void use_once(Device& device, StreamRef stream);

}  // namespace tandem::cuda

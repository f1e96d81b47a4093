// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "tandem/base/error.hpp"
#include "tandem/device/stream.hpp"

namespace tandem::cuda {

/// The cudaStream_t behind a StreamRef. Throws InvalidArgument for a stream of the host device.
[[nodiscard]] inline cudaStream_t native(StreamRef stream) {
  if (stream.type() != DeviceType::cuda) throw InvalidArgument("a stream of the host was given to a CUDA device");
  return static_cast<cudaStream_t>(stream.native_handle());
}

}  // namespace tandem::cuda

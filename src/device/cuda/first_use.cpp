// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/first_use.hpp"

#include <array>
#include <cstddef>
#include <cuda_runtime_api.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/cuda/kernels/attention_merge.hpp"
#include "device/cuda/kernels/copy_in_meeting.hpp"
#include "device/cuda/kernels/gemm.hpp"
#include "device/cuda/kernels/mailed_exchange.hpp"
#include "device/cuda/kernels/map.hpp"
#include "device/cuda/kernels/reduce.hpp"
#include "device/cuda/kernels/signal.hpp"
#include "device/cuda/kernels/single_attention.hpp"

namespace tandem::cuda {

void load_kernels(const Properties& properties, int device) {
  for (const auto load :
       {&load_signal_kernels, &load_mailed_exchange_kernels, &load_reduce_kernels, &load_copy_in_meeting_kernels,
        &load_map_kernels, &load_merge_kernels, &load_single_attention_kernels, &load_gemm_kernels}) {
    const cudaError_t result = load();
    if (result == cudaErrorNoKernelImageForDevice || result == cudaErrorInvalidDeviceFunction ||
        result == cudaErrorUnsupportedPtxVersion) {
      ignore(result);
      throw Unsupported(format(
          "{}, cuda:{}, has compute capability {}.{}; this build of Tandem has kernels for sm_{} ({})", properties.name,
          device, properties.major, properties.minor, TANDEM_CUDA_ARCHITECTURES, cudaGetErrorString(result)));
    }
    check(result, "cudaFuncGetAttributes");
  }
}

void use_once(Device& device, StreamRef stream) {
  constexpr std::size_t bytes = 4096;
  const DeviceMemory scratch(4 * bytes);
  device.fill(stream, scratch.data(), std::byte{0}, 4 * bytes);
  device.fill(stream, scratch.data(), std::byte{0}, 3);
  device.copy(stream, {.dst = scratch.data() + bytes, .src = scratch.data(), .bytes = bytes});
  // The driver may have a separate copy kernel for each alignment.
  for (std::size_t unit = 1; unit <= 16; unit *= 2) {
    device.copy(stream, {.dst = scratch.data() + bytes + unit, .src = scratch.data() + 3 * unit, .bytes = 33 * unit});
    for (const std::size_t row : {unit, 3 * unit, 63 * unit}) {
      device.copy(stream, {.dst = scratch.data() + 2 * bytes + unit,
                           .src = scratch.data() + unit,
                           .bytes = row,
                           .rows = 3,
                           .dst_pitch = row + unit,
                           .src_pitch = row + 2 * unit});
    }
  }
  const Copy first{.dst = scratch.data() + bytes, .src = scratch.data(), .bytes = 64};
  const Copy second{.dst = scratch.data() + 2 * bytes, .src = scratch.data(), .bytes = 64};
  device.copy_batch(stream, std::array{first, second});
  device.launch(stream, [] {});
  device.stream_synchronize(stream);
}

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <source_location>
#include <string>

/// What Tandem calls of libcuda.so.1. cuda.h's macros turn each name into the version that belongs to its prototype
/// (cuMemGetInfo into cuMemGetInfo_v2), and the table is made from the same expansion, so the two cannot differ.
#define TANDEM_DRIVER_FUNCTIONS(X)          \
  X(cuInit)                                 \
  X(cuGetErrorName)                         \
  X(cuGetErrorString)                       \
  X(cuDeviceGet)                            \
  X(cuDeviceTotalMem)                       \
  X(cuDeviceGetAttribute)                   \
  X(cuDevicePrimaryCtxRetain)               \
  X(cuDevicePrimaryCtxRelease)              \
  X(cuCtxGetCurrent)                        \
  X(cuCtxSetCurrent)                        \
  X(cuMemAddressReserve)                    \
  X(cuMemAddressFree)                       \
  X(cuMemCreate)                            \
  X(cuMemRelease)                           \
  X(cuMemMap)                               \
  X(cuMemUnmap)                             \
  X(cuMemSetAccess)                         \
  X(cuMemGetAllocationGranularity)          \
  X(cuMemExportToShareableHandle)           \
  X(cuMemImportFromShareableHandle)         \
  X(cuMemRetainAllocationHandle)            \
  X(cuMemGetAllocationPropertiesFromHandle) \
  X(cuMemGetAddressRange)

namespace tandem::cuda {

/// The driver's entry points. libcuda is not linked, since libtandem.so must start where there is none.
struct Driver {
  // NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the API's
#define TANDEM_DRIVER_MEMBER(name) decltype(&::name) name;
  TANDEM_DRIVER_FUNCTIONS(TANDEM_DRIVER_MEMBER)
#undef TANDEM_DRIVER_MEMBER
  // NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)

  /// Loaded and started (cuInit) on the first call, once for the process. Throws Unsupported that says what failed.
  [[nodiscard]] static const Driver& get();
  /// Why the library cannot be loaded; empty if it can. Starts nothing.
  [[nodiscard]] static const std::string& why_not_loaded();
  /// Why `get` would throw; empty if it would not.
  [[nodiscard]] static const std::string& why_not_started();
  /// Whether somebody has called `get` or `why_not_started`.
  [[nodiscard]] static bool is_started() noexcept;
  /// True in a child of a process that had started CUDA: there it can never be used.
  [[nodiscard]] static bool is_forked();

  /// Throws DeviceError (OutOfMemory for CUDA_ERROR_OUT_OF_MEMORY) with the call and the error's name and text, unless
  /// `result` is CUDA_SUCCESS.
  void check(CUresult result, const char* call, std::source_location where = std::source_location::current()) const;
};

}  // namespace tandem::cuda

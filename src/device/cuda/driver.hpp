// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <source_location>
#include <string>

/// The functions of libcuda.so.1 that Tandem calls. cuda.h's macros map each name to the version that its prototype
/// declares (cuMemGetInfo to cuMemGetInfo_v2); the table is made from the same expansion, so the two cannot differ.
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

/// The driver's entry points. libcuda is not linked, since libtandem.so must load on machines without it.
struct Driver {
  // NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the API's
#define TANDEM_DRIVER_MEMBER(name) decltype(&::name) name;
  TANDEM_DRIVER_FUNCTIONS(TANDEM_DRIVER_MEMBER)
#undef TANDEM_DRIVER_MEMBER
  // NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)

  /// Loads and initializes (cuInit) the driver on the first call in the process. Throws Unsupported if that fails.
  [[nodiscard]] static const Driver& get();
  /// Why the library cannot be loaded; empty if it can. Does not call cuInit.
  [[nodiscard]] static const std::string& why_not_loaded();
  /// Why `get` would throw; empty if it would not.
  [[nodiscard]] static const std::string& why_not_started();
  /// Whether cuInit has been called, by `get` or `why_not_started`.
  [[nodiscard]] static bool is_started() noexcept;
  /// True in a process forked from one that had called cuInit: CUDA cannot be used in it.
  [[nodiscard]] static bool is_forked();

  /// Unless `result` is CUDA_SUCCESS, throws DeviceError (OutOfMemory for CUDA_ERROR_OUT_OF_MEMORY) with the call and
  /// the error's name and text.
  void check(CUresult result, const char* call, std::source_location where = std::source_location::current()) const;
};

}  // namespace tandem::cuda

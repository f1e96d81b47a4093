// SPDX-License-Identifier: Apache-2.0
#pragma once

// For the types only: the library is loaded on first use, by the first attention or Device::why_no_attention.
#include <cudnn.h>
#include <source_location>
#include <string>

#define TANDEM_CUDNN_FUNCTIONS(X) \
  X(cudnnCreate)                  \
  X(cudnnDestroy)                 \
  X(cudnnGetErrorString)          \
  X(cudnnGetVersion)              \
  X(cudnnSetStream)

namespace tandem::cuda {

/// cuDNN's entry points, and the library itself for cudnn-frontend, which looks up those that it calls.
struct Cudnn {
  // NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the API's
#define TANDEM_CUDNN_MEMBER(name) decltype(&::name) name;
  TANDEM_CUDNN_FUNCTIONS(TANDEM_CUDNN_MEMBER)
#undef TANDEM_CUDNN_MEMBER
  // NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
  void* library;  ///< what dlopen returned

  /// Loads the library on the first call in the process. Throws Unsupported with `why_not_loaded`.
  [[nodiscard]] static const Cudnn& get();
  /// Why `get` would throw, naming the paths that were tried; empty if it would not.
  [[nodiscard]] static const std::string& why_not_loaded();

  /// "9.19.0", of the library that was loaded.
  [[nodiscard]] std::string version() const;
  /// Unless `status` is CUDNN_STATUS_SUCCESS, throws DeviceError (OutOfMemory for a failed allocation) with the call
  /// and the status.
  void check(cudnnStatus_t status, const char* call,
             std::source_location where = std::source_location::current()) const;
};

}  // namespace tandem::cuda

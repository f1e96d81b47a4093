// SPDX-License-Identifier: Apache-2.0
#pragma once

// For the types only: the library (541 MB) is loaded on first use, by the first GEMM or Device::model.
#include <cublasLt.h>
#include <source_location>
#include <string>

#define TANDEM_CUBLASLT_FUNCTIONS(X)       \
  X(cublasLtCreate)                        \
  X(cublasLtDestroy)                       \
  X(cublasLtGetVersion)                    \
  X(cublasLtGetStatusName)                 \
  X(cublasLtGetStatusString)               \
  X(cublasLtMatmul)                        \
  X(cublasLtMatmulAlgoCheck)               \
  X(cublasLtMatmulAlgoConfigGetAttribute)  \
  X(cublasLtMatmulAlgoGetHeuristic)        \
  X(cublasLtMatmulDescInit_internal)       \
  X(cublasLtMatmulDescSetAttribute)        \
  X(cublasLtMatmulPreferenceInit_internal) \
  X(cublasLtMatmulPreferenceSetAttribute)  \
  X(cublasLtMatrixLayoutInit_internal)

namespace tandem::cuda {

/// cuBLASLt's entry points.
struct CublasLt {
  // NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the API's
#define TANDEM_CUBLASLT_MEMBER(name) decltype(&::name) name;
  TANDEM_CUBLASLT_FUNCTIONS(TANDEM_CUBLASLT_MEMBER)
#undef TANDEM_CUBLASLT_MEMBER
  // NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)

  /// Loads the library on the first call in the process. Throws Unsupported, naming the paths that were tried.
  [[nodiscard]] static const CublasLt& get();

  /// Unless `status` is CUBLAS_STATUS_SUCCESS, throws DeviceError (OutOfMemory for CUBLAS_STATUS_ALLOC_FAILED) with the
  /// call and the status.
  void check(cublasStatus_t status, const char* call,
             std::source_location where = std::source_location::current()) const;
};

}  // namespace tandem::cuda

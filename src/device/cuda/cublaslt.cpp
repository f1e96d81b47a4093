// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cublaslt.hpp"

#include <array>
#include <dlfcn.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/cuda/open_library.hpp"

namespace tandem::cuda {
namespace {

// An older library has all functions that we call; a newer one may need larger descriptors than our header has.
constexpr std::array<const char*, 4> candidates = {
#if CUBLAS_VER_MAJOR >= 13
    "libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
#endif
    "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12"};

struct Loaded {
  CublasLt library{};
  std::string why_not;

  Loaded() {
    for (const char* candidate : candidates) {
      if (candidate != nullptr && load(candidate)) {
        why_not.clear();
        return;
      }
    }
  }

  bool load(const char* candidate) {
    void* const handle = open_library(candidate, why_not);
    if (handle == nullptr) return false;
#define TANDEM_CUBLASLT_LOAD(name)                                               \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, #name)); \
  if (library.name == nullptr) {                                                 \
    add_reason(why_not, candidate, "has no " #name);                             \
    dlclose(handle);                                                             \
    return false;                                                                \
  }
    TANDEM_CUBLASLT_FUNCTIONS(TANDEM_CUBLASLT_LOAD)
#undef TANDEM_CUBLASLT_LOAD
    return true;
  }
};

}  // namespace

const CublasLt& CublasLt::get() {
  static const Loaded& once = *new Loaded;  // never destroyed, for the same reason as the driver's table
  if (!once.why_not.empty()) throw Unsupported("a GEMM on CUDA needs cuBLASLt; tried " + once.why_not);
  return once.library;
}

void CublasLt::check(cublasStatus_t status, const char* call, std::source_location where) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string message =
      format("{}: {} ({})", call, cublasLtGetStatusName(status), cublasLtGetStatusString(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(message, where);
  throw DeviceError(message, where);
}

}  // namespace tandem::cuda

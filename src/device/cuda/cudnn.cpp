// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cudnn.hpp"

#include <array>
#include <dlfcn.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/cuda/open_library.hpp"

namespace tandem::cuda {
namespace {

constexpr std::array<const char*, 2> candidates = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"};

struct Loaded {
  Cudnn library{};
  std::string why_not;

  Loaded() {
    for (const char* candidate : candidates) {
      if (load(candidate)) {
        why_not.clear();
        return;
      }
    }
    why_not = "it needs cuDNN 9; tried " + why_not;
  }

  bool load(const char* candidate) {
    void* const handle = open_library(candidate, why_not);
    if (handle == nullptr) return false;
#define TANDEM_CUDNN_LOAD(name)                                                  \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, #name)); \
  if (library.name == nullptr) {                                                 \
    add_reason(why_not, candidate, "has no " #name);                             \
    dlclose(handle);                                                             \
    return false;                                                                \
  }
    TANDEM_CUDNN_FUNCTIONS(TANDEM_CUDNN_LOAD)
#undef TANDEM_CUDNN_LOAD
    library.library = handle;
    return true;
  }
};

const Loaded& loaded() {
  static const Loaded& once = *new Loaded;  // never destroyed, for the same reason as the driver's table
  return once;
}

}  // namespace

const Cudnn& Cudnn::get() {
  if (!why_not_loaded().empty()) throw Unsupported("no attention on CUDA: " + why_not_loaded());
  return loaded().library;
}

const std::string& Cudnn::why_not_loaded() { return loaded().why_not; }

std::string Cudnn::version() const {
  const std::size_t number = cudnnGetVersion();
  return format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

void Cudnn::check(cudnnStatus_t status, const char* call, std::source_location where) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string message = format("{}: {}", call, cudnnGetErrorString(status));
  if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED) {
    throw OutOfMemory(message, where);
  }
  throw DeviceError(message, where);
}

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/driver.hpp"

#include <atomic>
#include <dlfcn.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "base/home_process.hpp"

// Two macros, so that cuda.h's version macros are expanded before the name is stringified.
#define TANDEM_DRIVER_TEXT_(name) #name
#define TANDEM_DRIVER_TEXT(name) TANDEM_DRIVER_TEXT_(name)

namespace tandem::cuda {
namespace {

struct Loaded {
  Driver driver{};
  std::string why_not;

  Loaded() {
    // Never closed: the statically linked CUDA runtime keeps the library loaded until the process ends anyway.
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* text = dlerror();
      why_not = format("libcuda.so.1 was not found ({})", text == nullptr ? "no reason given" : text);
      return;
    }
#define TANDEM_DRIVER_LOAD(name)                                                                          \
  if (why_not.empty()) {                                                                                  \
    driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, TANDEM_DRIVER_TEXT(name)));      \
    if (driver.name == nullptr) why_not = "libcuda.so.1 is too old: it has no " TANDEM_DRIVER_TEXT(name); \
  }
    TANDEM_DRIVER_FUNCTIONS(TANDEM_DRIVER_LOAD)
#undef TANDEM_DRIVER_LOAD
  }
};

const Loaded& loaded() {
  // Never destroyed: other static objects may still free device memory through it while the process exits.
  static const Loaded& once = *new Loaded;
  return once;
}

/// The call to cuInit, and the process that it was made in.
struct Started {
  HomeProcess home;
  std::string why_not = loaded().why_not;

  Started() {
    if (!why_not.empty()) return;
    const Driver& driver = loaded().driver;
    if (const CUresult result = driver.cuInit(0); result != CUDA_SUCCESS) {
      const char* text = nullptr;
      static_cast<void>(driver.cuGetErrorString(result, &text));
      why_not = format("cuInit: {}", text == nullptr ? "unknown error" : text);
    }
    is_started = true;
  }

  static inline std::atomic<bool> is_started{false};
};

const Started& started() {
  static const Started& once = *new Started;
  return once;
}

}  // namespace

const Driver& Driver::get() {
  if (!started().why_not.empty()) throw Unsupported("the CUDA driver cannot be used: " + started().why_not);
  return loaded().driver;
}

const std::string& Driver::why_not_loaded() { return loaded().why_not; }

const std::string& Driver::why_not_started() { return started().why_not; }

bool Driver::is_started() noexcept { return Started::is_started; }

bool Driver::is_forked() { return is_started() && started().home.is_left(); }

void Driver::check(CUresult result, const char* call, std::source_location where) const {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  const char* text = nullptr;
  static_cast<void>(cuGetErrorName(result, &name));
  static_cast<void>(cuGetErrorString(result, &text));
  const std::string message =
      format("{}: {} ({})", call, name == nullptr ? "unknown error" : name, text == nullptr ? "no text" : text);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw OutOfMemory(message, where);
  throw DeviceError(message, where);
}

}  // namespace tandem::cuda

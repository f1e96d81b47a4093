// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <string>

#include "base/format.hpp"

namespace tandem::cuda {

/// Adds one of several candidates for a library to the text that says why none will do.
inline void add_reason(std::string& why_not, const char* candidate, const std::string& reason) {
  why_not += format("{}{} ({})", why_not.empty() ? "" : ", ", candidate, reason);
}

/// Opens a library; null, with the reason added to `why_not`, if it cannot be.
[[nodiscard]] inline void* open_library(const char* candidate, std::string& why_not) {
  void* const handle = dlopen(candidate, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* const text = dlerror();
  add_reason(why_not, candidate, text == nullptr ? "no reason given" : text);
  return nullptr;
}

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
#include "device/host/onednn.hpp"

#include <array>
#include <dlfcn.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem {

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool thread_sanitizer = true;
#else
constexpr bool thread_sanitizer = false;
#endif

constexpr std::array library_names{"libdnnl.so.3", "libdnnl.so.2"};

// The first members of oneDNN's version structure, the same in 2.x and 3.x.
struct Version {
  int major;
  int minor;
  int patch;
};

template <typename Function> Function symbol(void* library, const char* name) noexcept {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

struct OneDnn::Search {
  OneDnn found;
  std::string why_absent;
};

// The library stays loaded: it starts no threads of its own here, and unloading an OpenMP runtime is not safe.
const OneDnn::Search& OneDnn::search() noexcept {
  static const Search result = [] {
    Search search;
    if (thread_sanitizer) {
      search.why_absent = "ThreadSanitizer does not see what a library that it did not compile reads and writes";
      return search;
    }
    for (const char* const file : library_names) {
      void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) {
        const char* const reason = ::dlerror();
        search.why_absent += format("{}{}", search.why_absent.empty() ? "" : "; ", reason != nullptr ? reason : file);
        continue;
      }
      search.found.sgemm_ = symbol<Sgemm>(library, "dnnl_sgemm");
      if (search.found.sgemm_ == nullptr) {
        search.why_absent += format("{}{} has no dnnl_sgemm", search.why_absent.empty() ? "" : "; ", file);
        continue;
      }
      search.found.library_ = library;
      search.found.set_threads_ = symbol<void (*)(int)>(library, "omp_set_num_threads");
      search.found.max_threads_ = symbol<int (*)()>(library, "omp_get_max_threads");
      const auto version = symbol<const Version* (*)()>(library, "dnnl_version");
      if (version != nullptr) {
        search.found.name_ = format("oneDNN {}.{}.{}", version()->major, version()->minor, version()->patch);
        search.found.major_ = version()->major;
        search.found.minor_ = version()->minor;
      } else {
        search.found.name_ = "oneDNN";
      }
      break;
    }
    return search;
  }();
  return result;
}

const OneDnn* OneDnn::load() noexcept { return search().found.sgemm_ != nullptr ? &search().found : nullptr; }

std::string OneDnn::why_absent() { return search().found.sgemm_ != nullptr ? "" : search().why_absent; }

void* OneDnn::address_of(const char* name) const noexcept { return ::dlsym(library_, name); }

OneDnn::OneThread::OneThread(const OneDnn& library)
    : library_(library),
      threads_(library.set_threads_ != nullptr && library.max_threads_ != nullptr ? library.max_threads_() : 1) {
  if (threads_ != 1) library_.set_threads_(1);
}

OneDnn::OneThread::~OneThread() {
  if (threads_ != 1) library_.set_threads_(threads_);
}

void OneDnn::sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                   const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                   std::int64_t ldc) const {
  const OneThread one_thread(*this);
  const int status =
      sgemm_(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (status != 0) throw DeviceError(format("{}: sgemm of m {}, n {}, k {} gave status {}", name_, m, n, k, status));
}

}  // namespace tandem

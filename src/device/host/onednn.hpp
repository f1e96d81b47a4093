// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

/// oneDNN's sgemm, from the library that the dynamic linker finds at the first use.
class OneDnn {
 public:
  /// Null if no usable library is found; `why_absent` says why.
  [[nodiscard]] static const OneDnn* load() noexcept;
  [[nodiscard]] static std::string why_absent();

  /// C[m, n] = alpha · op(A) · op(B) + beta · C, row-major, on the calling thread alone. Throws DeviceError.
  void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
             const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
             std::int64_t ldc) const;

  /// "oneDNN 2.6.3"
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Whether code compiled with the headers of this version may call the library: within a major version, newer
  /// libraries are compatible with older headers.
  [[nodiscard]] bool has_api_of(int major, int minor) const noexcept { return major_ == major && minor_ >= minor; }
  /// Null if the library has no such function.
  [[nodiscard]] void* address_of(const char* name) const noexcept;

  /// While it lives, the library computes on the calling thread alone: parallelism is the crew's task. OpenMP's setting
  /// is per thread, and the thread may be the user's, so it is restored.
  class OneThread {
   public:
    explicit OneThread(const OneDnn& library);
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;
    ~OneThread();

   private:
    const OneDnn& library_;
    int threads_;
  };

 private:
  using Sgemm = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*, std::int64_t,
                        const float*, std::int64_t, float, float*, std::int64_t);

  struct Search;
  static const Search& search() noexcept;

  Sgemm sgemm_ = nullptr;
  void (*set_threads_)(int) = nullptr;
  int (*max_threads_)() = nullptr;
  std::string name_;
  void* library_ = nullptr;
  int major_ = 0;
  int minor_ = 0;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <sys/mman.h>
#include <type_traits>

namespace tandem::testing {

/// A T in memory that this process shares with the ranks that it forks later.
template <typename T> class Shared {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  Shared() : value_(new(map()) T{}) {}
  ~Shared() { ::munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  [[nodiscard]] T* operator->() const noexcept { return value_; }
  [[nodiscard]] T& operator*() const noexcept { return *value_; }

 private:
  static void* map() {
    void* const memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
  }

  T* value_;
};

}  // namespace tandem::testing

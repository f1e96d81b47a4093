// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace tandem {

/// The memory that this process has mapped, by what identifies it. One table for the process, even if several ranks are
/// threads of it: they share each mapping, and the memory of a pointer can be found.
template <typename Description, typename Memory> class Mapped {
 public:
  std::shared_ptr<Memory> find(const Description& description) {
    const std::scoped_lock lock(mutex_);
    const auto at = memories_.find(description);
    return at == memories_.end() ? nullptr : at->second.lock();
  }

  std::shared_ptr<Memory> find(const std::byte* data, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [description, weak] : memories_) {
      auto memory = weak.lock();
      if (memory != nullptr && memory->holds(data, bytes)) return memory;
    }
    return nullptr;
  }

  /// Returns the existing entry instead, if another thread was faster.
  std::shared_ptr<Memory> insert(const Description& description, std::shared_ptr<Memory> memory) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(memories_, [](const auto& entry) { return entry.second.expired(); });
    auto& slot = memories_[description];
    if (auto existing = slot.lock()) return existing;
    slot = memory;
    return memory;
  }

 private:
  std::mutex mutex_;
  std::map<Description, std::weak_ptr<Memory>> memories_;
};

}  // namespace tandem

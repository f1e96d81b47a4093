// SPDX-License-Identifier: Apache-2.0
#include "device/host/deferred_frees.hpp"

#include <algorithm>
#include <cstdlib>

namespace tandem {

void DeferredFrees::Free::operator()(void* memory) const noexcept { std::free(memory); }

void DeferredFrees::free_behind(void* memory, std::vector<HostStreamPtr> streams) {
  std::vector<std::pair<HostStreamPtr, std::uint64_t>> behind;
  for (HostStreamPtr& stream : streams) {
    const std::uint64_t ticket = stream->ticket();
    if (!stream->passed(ticket)) behind.emplace_back(std::move(stream), ticket);
  }
  if (behind.empty()) return Free()(memory);
  const std::scoped_lock lock(mutex_);
  if (held_.size() == held_.capacity()) held_.reserve(2 * held_.size() + 8);  // throws before the memory is taken
  held_.push_back({std::unique_ptr<void, Free>(memory), std::move(behind)});
  holds_.store(true, std::memory_order_release);
}

void DeferredFrees::sweep_held() noexcept {
  const std::scoped_lock lock(mutex_);
  std::erase_if(held_, [](const Held& held) {
    return std::ranges::all_of(held.behind, [](const auto& last) { return last.first->passed(last.second); });
  });
  holds_.store(!held_.empty(), std::memory_order_release);
}

}  // namespace tandem

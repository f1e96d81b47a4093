// SPDX-License-Identifier: Apache-2.0
#include "team/reclaimer.hpp"

#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "base/format.hpp"

namespace tandem {

class Reclaimer::Deferred {
 public:
  Deferred(std::shared_ptr<Shelf> shelf, std::shared_ptr<void> object) : shelf_(std::move(shelf)) {
    entry_.push_back(std::move(object));
    const std::lock_guard lock(shelf_->mutex);
    ++shelf_->deferred;
  }
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  ~Deferred() {
    {
      const std::lock_guard lock(shelf_->mutex);
      --shelf_->deferred;
      if (!shelf_->closed) shelf_->objects.splice(shelf_->objects.end(), entry_);
    }
    if (!entry_.empty()) keep_for_ever(std::move(entry_));
  }

 private:
  std::shared_ptr<Shelf> shelf_;
  Objects entry_;  // allocated early: the destructor could not report a failed allocation
};

std::shared_ptr<void> Reclaimer::deferred(std::shared_ptr<void> object) const {
  return std::make_shared<Deferred>(shelf_, std::move(object));
}

void Reclaimer::add(std::shared_ptr<void> object) noexcept {
  try {
    const std::lock_guard lock(shelf_->mutex);
    shelf_->objects.push_back(std::move(object));
  } catch (...) {  // no memory for the list: `object` is released at the end of this function, once it is unused
    static_cast<void>(wait_until_idle());
  }
}

void Reclaimer::collect(std::chrono::milliseconds limit) noexcept {
  Objects objects = take();
  if (objects.empty() || is_idle(limit)) return;
  const std::lock_guard lock(shelf_->mutex);
  shelf_->objects.splice(shelf_->objects.begin(), objects);
}

bool Reclaimer::finish() noexcept {
  const bool idle = is_empty() || wait_until_idle();
  if (idle) wait_for_deferred();
  Objects objects;
  {
    const std::lock_guard lock(shelf_->mutex);
    shelf_->closed = true;
    objects.swap(shelf_->objects);
  }
  if (idle || objects.empty()) return idle;
  log_.write(LogLevel::error, "a world could not wait for its device at its end, and keeps what it shared with peers");
  keep_for_ever(std::move(objects));
  return false;
}

void Reclaimer::forget() noexcept { keep_for_ever(std::move(shelf_->objects)); }

void Reclaimer::keep_for_ever(Objects&& objects) noexcept {
  [[maybe_unused]] const auto* const never_freed = new (std::nothrow) Objects(std::move(objects));
}

bool Reclaimer::is_empty() noexcept {
  const std::lock_guard lock(shelf_->mutex);
  return shelf_->objects.empty() && shelf_->deferred == 0;
}

// The driver releases a destroyed graph's objects shortly after its last work. Graphs that exist are not waited for.
void Reclaimer::wait_for_deferred() noexcept {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  const auto all_here = [this] {
    const std::lock_guard lock(shelf_->mutex);
    return shelf_->deferred == 0;
  };
  while (!all_here() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Reclaimer::Objects Reclaimer::take() noexcept {
  const std::lock_guard lock(shelf_->mutex);
  return std::exchange(shelf_->objects, {});
}

bool Reclaimer::is_idle(std::chrono::milliseconds limit) noexcept {
  try {
    return device_->synchronize_for(limit);
  } catch (const std::exception& error) {
    log_.write(LogLevel::warn, format("memory that teams no longer use is not released yet: {}", error.what()));
  } catch (...) {
    log_.write(LogLevel::warn, "memory that teams no longer use is not released yet");
  }
  return false;
}

// Uses `synchronize_for`, since `synchronize` would throw what host functions threw, which is for the caller that
// synchronizes their stream. Terminates, since every queued wait has a deadline.
bool Reclaimer::wait_until_idle() noexcept {
  constexpr std::chrono::seconds piece{1};
  try {
    while (!device_->synchronize_for(piece)) {
    }
    return true;
  } catch (...) {  // the device has failed
    return false;
  }
}

}  // namespace tandem

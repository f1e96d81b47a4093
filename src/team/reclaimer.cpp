// SPDX-License-Identifier: Apache-2.0
#include "team/reclaimer.hpp"

#include <exception>
#include <new>
#include <utility>

#include "base/format.hpp"

namespace tandem {

void Reclaimer::add(std::function<void()>&& release) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    releases_.push_back(std::move(release));
    return;
  } catch (...) {  // no memory for the list
  }
  if (wait_until_idle()) release();
}

void Reclaimer::collect(std::chrono::milliseconds limit) noexcept {
  Releases releases = take();
  if (releases.empty()) return;
  if (is_idle(limit)) return run(releases);
  const std::lock_guard lock(mutex_);
  releases_.splice(releases_.begin(), releases);
}

void Reclaimer::finish() noexcept {
  Releases releases = take();
  if (releases.empty()) return;
  if (wait_until_idle()) return run(releases);
  log_.write(LogLevel::error, "a world could not wait for its device at its end, and keeps what it shared with peers");
  keep_for_ever(std::move(releases));
}

void Reclaimer::forget() noexcept { keep_for_ever(std::move(releases_)); }

void Reclaimer::keep_for_ever(Releases&& releases) noexcept {
  [[maybe_unused]] const auto* const never_freed = new (std::nothrow) Releases(std::move(releases));
}

Reclaimer::Releases Reclaimer::take() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(releases_, {});
}

bool Reclaimer::is_idle(std::chrono::milliseconds limit) noexcept {
  try {
    return device_->synchronize_for(limit);
  } catch (const std::exception& error) {
    log_.write(LogLevel::warn, format("what teams let go of is not released yet: {}", error.what()));
  } catch (...) {
    log_.write(LogLevel::warn, "what teams let go of is not released yet");
  }
  return false;
}

// In pieces: unlike `Device::synchronize`, they leave what functions of the host's threw to who synchronises the
// stream. Ends, since each wait that is queued does.
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

void Reclaimer::run(const Releases& releases) noexcept {
  for (const auto& release : releases) {
    try {
      release();
    } catch (const std::exception& error) {
      log_.write(LogLevel::error, format("something that a team let go of could not be released: {}", error.what()));
    } catch (...) {
      log_.write(LogLevel::error, "something that a team let go of could not be released");
    }
  }
}

}  // namespace tandem

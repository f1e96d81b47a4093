// SPDX-License-Identifier: Apache-2.0
#include "team/reclaimer.hpp"

#include <exception>
#include <iterator>
#include <utility>

#include "base/format.hpp"

namespace tandem {

void Reclaimer::add(std::function<void()> release) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    releases_.push_back(std::move(release));
  } catch (...) {  // no memory for the list: then it goes at once
  }
}

void Reclaimer::collect(std::chrono::milliseconds limit) {
  Releases releases = take();
  if (releases.empty()) return;
  bool idle = false;
  try {
    idle = device_->synchronize_for(limit);
  } catch (...) {
    put_back(std::move(releases));
    throw;
  }
  if (idle) return run(releases);
  put_back(std::move(releases));
}

void Reclaimer::finish() noexcept {
  Releases releases = take();
  if (releases.empty()) return;
  try {
    device_->synchronize();
  } catch (const std::exception& error) {
    log_.write(LogLevel::error, format("a world could not wait for its device at its end: {}", error.what()));
    return;
  }
  run(releases);
}

Reclaimer::Releases Reclaimer::take() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(releases_, {});
}

void Reclaimer::put_back(Releases releases) {
  const std::lock_guard lock(mutex_);
  releases.insert(releases.end(), std::make_move_iterator(releases_.begin()), std::make_move_iterator(releases_.end()));
  releases_ = std::move(releases);
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

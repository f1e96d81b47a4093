// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/event.hpp"

#include <utility>

#include "tandem/device/device.hpp"

namespace tandem {

Event::Event(Device& device, Timing timing)
    : device_(device.shared_from_this()), handle_(device.event_create(timing)) {}

Event::Event(Event&& other) noexcept
    : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ != nullptr) device_->event_destroy(handle_);
}

void Event::record(StreamRef stream) { device_->event_record(handle_, stream); }

void Event::hold(StreamRef stream) const { device_->event_hold(handle_, stream); }

bool Event::query() const { return device_->event_query(handle_); }

void Event::synchronize() const { device_->event_synchronize(handle_); }

double Event::elapsed_since(const Event& begin) const { return device_->event_elapsed_ms(begin.handle_, handle_); }

void order_after(StreamRef later, StreamRef earlier, Event& event) {
  if (later == earlier) return;
  event.record(earlier);
  event.hold(later);
}

}  // namespace tandem

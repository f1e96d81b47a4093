// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/event.hpp"

#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

Event::Event(Device& device, Timing timing)
    : device_(device.shared_from_this()), handle_(device.event_create(timing)) {}

Event::Event(Event&& other) noexcept
    : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  Event taken(std::move(other));  // and then destroys what this had
  std::swap(device_, taken.device_);
  std::swap(handle_, taken.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ != nullptr) device_->event_destroy(handle_);
}

Device& Event::device() const {
  if (device_ == nullptr) throw InvalidArgument("an event was used that was moved from");
  return *device_;
}

void Event::record(StreamRef stream) { device().event_record(handle_, stream); }

void Event::wait(StreamRef stream) const { device().event_wait(handle_, stream); }

bool Event::query() const { return device().event_query(handle_); }

void Event::synchronize() const { device().event_synchronize(handle_); }

double Event::elapsed_since(const Event& begin) const {
  static_cast<void>(begin.device());
  return device().event_elapsed_ms(begin.handle_, handle_);
}

void order_after(StreamRef later, StreamRef earlier, Event& event) {
  if (later == earlier) return;
  event.record(earlier);
  event.wait(later);
}

}  // namespace tandem

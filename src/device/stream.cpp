// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/stream.hpp"

#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

Stream::Stream(Device& device, StreamPriority priority)
    : device_(device.shared_from_this()), ref_(device.stream_create(priority)) {}

Stream Stream::from_native_handle(Device& device, StreamRef handle) noexcept {
  return {device.shared_from_this(), handle};
}

Stream::Stream(Stream&& other) noexcept : device_(std::move(other.device_)), ref_(other.ref_) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  Stream taken(std::move(other));  // and then destroys what this had
  std::swap(device_, taken.device_);
  std::swap(ref_, taken.ref_);
  return *this;
}

Stream::~Stream() {
  if (device_ != nullptr) device_->stream_destroy(ref_);
}

StreamRef Stream::release() noexcept {
  device_.reset();
  return ref_;
}

Device& Stream::device() const {
  if (device_ == nullptr) throw InvalidArgument("a stream was used that was moved from, or released");
  return *device_;
}

void Stream::synchronize() const { device().stream_synchronize(ref_); }

bool Stream::query() const { return device().stream_query(ref_); }

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/bootstrap.hpp"

namespace tandem {

/// Memory of this rank that peers can map. What a backend needs for that is a member of its own class, never of the
/// symmetric tensor. The memory is there until the last rank that maps it lets go of it.
class TANDEM_API Segment {
 public:
  virtual ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// What a peer needs to map this: a description, and a file descriptor that the parcel owns. Throws OutOfMemory where
  /// there is no descriptor left.
  [[nodiscard]] virtual Parcel share() const = 0;

 protected:
  Segment(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}

 private:
  std::byte* data_;
  std::size_t bytes_;
};

/// Segments of peers as this rank reaches them: one peer's, or several in one address range.
class TANDEM_API Mapping {
 public:
  virtual ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 protected:
  Mapping(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}

 private:
  std::byte* data_;
  std::size_t bytes_;
};

/// How memory becomes reachable. One file a backend, one conformance suite for all (tests/memory/backend_test.cpp).
/// Nothing here is collective or waits for a peer: symmetric memory exchanges the parcels. What a driver refuses is a
/// DeviceError, beside the errors below.
class TANDEM_API MemoryBackend {
 public:
  virtual ~MemoryBackend();

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The multiple that segments are rounded up to, and that lies between the ranks of a contiguous mapping.
  [[nodiscard]] virtual std::size_t granularity() const = 0;
  /// At least `bytes` (and at least one granule) of zeroed memory. Throws OutOfMemory.
  [[nodiscard]] virtual std::shared_ptr<Segment> allocate(std::size_t bytes) = 0;
  /// The segment that holds [data, data + bytes), allocated earlier by this backend or, where the device's own API
  /// tells (CUDA's VMM), by anybody. Throws Unsupported for memory that cannot be shared, with how to allocate instead.
  [[nodiscard]] virtual std::shared_ptr<Segment> adopt(void* data, std::size_t bytes) = 0;
  /// Maps what a peer's `share` described. Within one process all ranks get one mapping, so that tools see every
  /// access. Throws InvalidArgument for a parcel that is no segment of this backend's, OutOfMemory where there are no
  /// addresses left, and Unsupported where this rank's device does not reach the memory.
  [[nodiscard]] virtual std::shared_ptr<Mapping> map(Parcel parcel) = 0;
  /// Maps the same memory once more, all of it in one address range: part i begins at i · stride (the largest part's
  /// bytes). The parts are mappings that `map` gave. Throws OutOfMemory where there are no addresses left.
  [[nodiscard]] virtual std::shared_ptr<Mapping> map_side_by_side(std::span<const std::shared_ptr<Mapping>> parts) = 0;
};

/// The backends that this library knows, whether usable here or not.
[[nodiscard]] TANDEM_API std::vector<std::string> memory_backend_names();
/// Why the backend of that name, as `open_memory_backend` takes it, cannot be used with `device`; empty if it can.
/// Throws InvalidArgument for an unknown name.
[[nodiscard]] TANDEM_API std::string why_no_memory_backend(std::string_view name, const Device& device);
/// The backend by name; "auto" is the device's own ("host", "cuda"). Throws InvalidArgument for an unknown name
/// (listing the known ones) and Unsupported with the reason for one that cannot be used. Never another one than asked
/// for.
[[nodiscard]] TANDEM_API std::shared_ptr<MemoryBackend> open_memory_backend(std::string_view name,
                                                                            const std::shared_ptr<Device>& device);

}  // namespace tandem

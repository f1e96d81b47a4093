// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/bootstrap.hpp"

namespace tandem {

/// Memory of this rank that peers can map. Backend-specific state belongs in a backend's subclass, never in the
/// symmetric tensor. The memory is freed when the last rank that maps it has released it.
class TANDEM_API Segment {
 public:
  virtual ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// What a peer needs to map this: a description, and a file descriptor that the parcel owns. Throws OutOfMemory if no
  /// descriptor is left.
  [[nodiscard]] virtual Parcel share() const = 0;

 protected:
  Segment(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}

 private:
  std::byte* data_;
  std::size_t bytes_;
};
static_assert(Pinned<Segment>);

/// Segments of ranks, mapped by this rank: one rank's, or several in one address range.
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
static_assert(Pinned<Mapping>);

/// How ranks map each other's memory. One file per backend, one conformance suite for all
/// (tests/memory/backend_test.cpp). No call is collective or waits for a peer: SymmetricMemory exchanges the parcels.
/// In addition to the errors below, a failed driver call throws DeviceError.
class TANDEM_API MemoryBackend {
 public:
  virtual ~MemoryBackend();
  MemoryBackend(const MemoryBackend&) = delete;
  MemoryBackend& operator=(const MemoryBackend&) = delete;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Sizes of segments are multiples of this; so are the strides of `map_side_by_side`.
  [[nodiscard]] virtual std::size_t granularity() const = 0;
  /// At least `bytes` (and at least one granule) of zeroed memory. Throws OutOfMemory.
  [[nodiscard]] virtual std::shared_ptr<Segment> allocate(std::size_t bytes) = 0;
  /// The segment that contains [data, data + bytes), allocated earlier by this backend or, on CUDA, by any code through
  /// the VMM API. Throws Unsupported for memory that cannot be shared, saying how to allocate instead.
  [[nodiscard]] virtual std::shared_ptr<Segment> adopt(void* data, std::size_t bytes) = 0;
  /// Maps what a peer's `share` described. All ranks of one process share one mapping, so that tools see every access.
  /// Throws InvalidArgument for a parcel that is not a segment of this backend, OutOfMemory if no addresses are left,
  /// and Unsupported if this rank's device cannot access the memory.
  [[nodiscard]] virtual std::shared_ptr<Mapping> map(Parcel parcel) = 0;
  /// Maps the memory of `parts`, which `map` returned, a second time in one address range: part i begins at i · stride,
  /// where the stride is the largest part's size in bytes. Throws OutOfMemory if no addresses are left.
  [[nodiscard]] virtual std::shared_ptr<Mapping> map_side_by_side(std::span<const std::shared_ptr<Mapping>> parts) = 0;

 protected:
  MemoryBackend() = default;
};
static_assert(Pinned<MemoryBackend>);

/// The backends that this library knows, usable here or not.
[[nodiscard]] TANDEM_API std::vector<std::string> memory_backend_names();
/// Why the backend with that name, as in `open_memory_backend`, cannot be used with `device`; empty if it can. Throws
/// InvalidArgument for an unknown name.
[[nodiscard]] TANDEM_API std::string why_no_memory_backend(std::string_view name, const Device& device);
/// Opens the backend with that name; "auto" is the device's own ("host", "cuda"). Throws InvalidArgument for an unknown
/// name, listing the known ones, and Unsupported, with the reason, if it cannot be used: there is no fallback to
/// another backend.
[[nodiscard]] TANDEM_API std::shared_ptr<MemoryBackend> open_memory_backend(std::string_view name,
                                                                            const std::shared_ptr<Device>& device);

}  // namespace tandem

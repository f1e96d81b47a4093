// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "tandem/base/concepts.hpp"
#include "tandem/base/device_id.hpp"
#include "tandem/base/export.hpp"

struct CUstream_st;  // cudaStream_t is a pointer to this; CUDA's headers stay out of ours

namespace tandem {

class Device;
class HostStream;

enum class StreamPriority : std::uint8_t { normal, high };

/// A non-owning reference to a stream: an ordered queue of work on a device. Each asynchronous call of Tandem takes
/// one. A cudaStream_t converts to it; a literal 0 or nullptr does not compile, so that nobody uses the default stream
/// by accident. A variable that holds a null cudaStream_t does convert, to that stream.
class StreamRef {
 public:
  StreamRef(CUstream_st* stream) noexcept : handle_(stream), type_(DeviceType::cuda) {}
  explicit StreamRef(HostStream* stream) noexcept : handle_(stream), type_(DeviceType::host) {}
  StreamRef(int) = delete;
  StreamRef(std::nullptr_t) = delete;

  [[nodiscard]] DeviceType type() const noexcept { return type_; }
  /// The cudaStream_t, or the HostStream*.
  [[nodiscard]] void* native_handle() const noexcept { return handle_; }

  friend bool operator==(const StreamRef&, const StreamRef&) = default;

 private:
  void* handle_;
  DeviceType type_;
};
static_assert(Plain<StreamRef>);

/// Owns a stream, and keeps its device alive. The destructor does not wait: queued work still runs, and the stream's
/// resources are freed after it. One that was moved from, or released, owns no stream: `device`, `synchronize` and
/// `query` throw InvalidArgument, and what it converts to belongs to the new owner.
class TANDEM_API Stream {
 public:
  explicit Stream(Device& device, StreamPriority priority = StreamPriority::normal);
  /// Takes ownership of a stream that `release` returned or that the device's own API created.
  [[nodiscard]] static Stream from_native_handle(Device& device, StreamRef handle) noexcept;
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  operator StreamRef() const noexcept { return ref_; }
  [[nodiscard]] StreamRef ref() const noexcept { return ref_; }
  [[nodiscard]] Device& device() const;
  /// Passes ownership to the caller, who must destroy the stream, or take it over again, while the device lives.
  [[nodiscard]] StreamRef release() noexcept;

  /// Blocks until all queued work has run; bounded, since each wait in the queue has a deadline. Throws DeviceError, or
  /// the first exception of a `Device::launch` function that was queued, or recorded into a graph, on this stream or,
  /// on the host, on one that an event made it wait for. Results of communication are valid only after
  /// `Team::synchronize` or `Team::check`, which know of lost peers.
  void synchronize() const;
  /// True if all queued work has run.
  [[nodiscard]] bool query() const;

 private:
  Stream(std::shared_ptr<Device> device, StreamRef ref) noexcept : device_(std::move(device)), ref_(ref) {}
  std::shared_ptr<Device> device_;  // null once moved from or released
  StreamRef ref_;
};
static_assert(Owner<Stream>);
static_assert(!std::is_constructible_v<StreamRef, int> && !std::is_constructible_v<StreamRef, std::nullptr_t>);

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_memory.hpp"

namespace tandem {

/// A dense typed view of a symmetric allocation. A handle, like SymmetricMemory.
class TANDEM_API SymmetricTensor {
 public:
  SymmetricTensor() = default;

  /// Allocates a tensor of `sizes` (this rank's part) on the team's device, filled with zeros. Local; call `rendezvous`
  /// on all members next. Without dimensions it has one element; an extent of 0 is allowed, for no elements.
  /// Throws InvalidArgument (sizes, an empty team, channels), Unsupported (backend) and OutOfMemory.
  [[nodiscard]] static SymmetricTensor empty(const Team& team, const Dims& sizes, DType dtype,
                                             const MemoryOptions& options = {});
  /// A tensor on memory allocated earlier: see SymmetricMemory::wrap. `data` must be aligned to the dtype's size.
  [[nodiscard]] static SymmetricTensor wrap(const Team& team, void* data, const Dims& sizes, DType dtype,
                                            const MemoryOptions& options = {});

  /// Another tensor on the same memory, from its beginning. It shares the memory's rendezvous, whether that comes
  /// before or after this call, and its signal pad. Local, and free; call it on all ranks with the same arguments.
  /// Throws InvalidArgument for a tensor that does not fit into the memory, memory that is not aligned to the dtype's
  /// size, or a tensor that was never made.
  [[nodiscard]] SymmetricTensor viewed_as(const Dims& sizes, DType dtype) const;

  explicit operator bool() const noexcept { return static_cast<bool>(memory_); }

  /// Collective, once; a barrier. As SymmetricMemory::rendezvous, whose errors it throws; also InvalidArgument, naming
  /// two ranks, if sizes or dtypes differ.
  void rendezvous();

  [[nodiscard]] const Team& team() const { return memory_.team(); }
  [[nodiscard]] const SymmetricMemory& memory() const noexcept { return memory_; }
  [[nodiscard]] const Dims& sizes() const noexcept { return local_.sizes(); }
  [[nodiscard]] DType dtype() const noexcept { return local_.dtype(); }

  /// This rank's part. The view belongs to this handle: copy it to use it for longer.
  [[nodiscard]] const TensorView& local() const&;
  [[nodiscard]] TensorView local() && { return std::as_const(*this).local(); }
  /// The part of the team's rank `rank`. Throws InvalidArgument before the rendezvous, and for a rank outside
  /// [0, team size).
  [[nodiscard]] TensorView remote(int rank) const;
  /// [ranks, sizes…]: every rank's part in one address range. The first dimension's stride in bytes is
  /// SymmetricMemory::contiguous_stride, a multiple of the backend's granularity (2 MiB on CUDA), so this is rarely
  /// dense: for a dense GEMM input use an ordinary symmetric tensor of sizes [ranks · m, k]. Throws InvalidArgument
  /// before the rendezvous and for more than 7 dimensions, and what SymmetricMemory::contiguous throws: Unsupported if
  /// a rank wraps its tensor from the middle of an allocation.
  [[nodiscard]] TensorView contiguous_view() const;
  [[nodiscard]] void* const* peer_pointers() const { return memory_.peer_pointers(); }
  [[nodiscard]] const SignalPad& signal_pad() const { return memory_.signal_pad(); }

  // One-sided copies. One rank calls them, which waits for no other. Asynchronous and stream-ordered; elements count in
  // row-major order. `rank` may be this rank. Whether the elements may be accessed is the program's to know, from
  // signals: wait for the peer's permission in the stream before a copy, and put a signal after it, with
  // `signal_pad().put_signal` in the same stream. The peer waits for that before it reads what was put, or overwrites
  // what was got. Local memory, too, must stay as it is until the stream has passed the copy.
  // A graph that records a copy does not keep the tensor alive.
  //
  // Throw InvalidArgument, before anything is queued: before the rendezvous, for a rank outside [0, team size), for a
  // local tensor of another dtype, on another device than the team's, or not dense, for elements that the tensor does
  // not have, and if source and destination overlap. Of a tensor without elements nothing is copied.

  /// Copies `from` to the elements of `rank`'s tensor that begin at element `at`.
  void put(StreamRef stream, int rank, const TensorView& from, std::int64_t at = 0) const;
  /// Copies into `to` the elements of `rank`'s tensor that begin at element `at`.
  void get(StreamRef stream, int rank, const TensorView& to, std::int64_t at = 0) const;

 private:
  SymmetricTensor(SymmetricMemory memory, const Dims& sizes, DType dtype);

  SymmetricMemory memory_;
  TensorView local_;  // made once: small operations take no longer than making a few views
};
static_assert(Handle<SymmetricTensor>);

}  // namespace tandem

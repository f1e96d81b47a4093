// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/memory/symmetric_memory.hpp"

namespace tandem {

/// A dense typed view on a symmetric allocation. A handle, like the memory under it.
class TANDEM_API SymmetricTensor {
 public:
  SymmetricTensor() = default;

  /// Allocates a tensor of `sizes` (this rank's part) on the team's device; its elements are zero. Local; call
  /// `rendezvous` on all members next. No dimensions: one element; an extent of 0: no elements, and everything else
  /// works. Throws InvalidArgument (sizes, an empty team, channels), Unsupported (backend) and OutOfMemory.
  [[nodiscard]] static SymmetricTensor empty(const Team& team, const Dims& sizes, DType dtype,
                                             const MemoryOptions& options = {});
  /// A tensor on memory allocated earlier: see SymmetricMemory::wrap. `data` is aligned to the dtype's size.
  [[nodiscard]] static SymmetricTensor wrap(const Team& team, void* data, const Dims& sizes, DType dtype,
                                            const MemoryOptions& options = {});

  explicit operator bool() const noexcept { return static_cast<bool>(memory_); }

  /// Collective, once; a barrier, as SymmetricMemory::rendezvous, whose errors it has. Throws InvalidArgument, naming
  /// two ranks, where sizes or dtypes differ.
  void rendezvous();

  [[nodiscard]] const Team& team() const { return memory_.team(); }
  [[nodiscard]] const SymmetricMemory& memory() const noexcept { return memory_; }
  [[nodiscard]] const Dims& sizes() const noexcept { return local_.sizes(); }
  [[nodiscard]] DType dtype() const noexcept { return local_.dtype(); }

  /// This rank's part. The view is this handle's own: copy it to have it for longer.
  [[nodiscard]] const TensorView& local() const&;
  [[nodiscard]] TensorView local() && { return std::as_const(*this).local(); }
  /// The part of the team's rank `rank`, after the rendezvous. Throws InvalidArgument before it and for a rank outside
  /// of [0, team size).
  [[nodiscard]] TensorView remote(int rank) const;
  /// [ranks, sizes…]: every rank's part in one address range. The stride of the first dimension is
  /// SymmetricMemory::contiguous_stride, multiples of the backend's granularity (2 MiB on CUDA), so this is dense only
  /// by luck: dense inputs of a GEMM are ordinary symmetric tensors of sizes [ranks · m, k]. Throws InvalidArgument
  /// before the rendezvous and for more than 7 dimensions, and what SymmetricMemory::contiguous throws: Unsupported for
  /// a tensor that a rank wraps from the middle of an allocation.
  [[nodiscard]] TensorView contiguous_view() const;
  [[nodiscard]] void* const* peer_pointers() const { return memory_.peer_pointers(); }
  [[nodiscard]] const SignalPad& signal_pad() const { return memory_.signal_pad(); }

 private:
  SymmetricTensor(SymmetricMemory memory, const Dims& sizes, DType dtype);

  SymmetricMemory memory_;
  TensorView local_;  // made once: operations on few elements take no longer than a few of them
};

}  // namespace tandem

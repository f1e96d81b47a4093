// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tandem/collective/collective.hpp"

namespace tandem {

struct BroadcastSpec {
  std::int64_t count = 0;  ///< elements; an upper bound for all runs
  DType dtype = f32;       ///< any
};

/// Every rank gets the root's tensor. The root, a rank of the team, may differ from run to run (but is equal on all
/// ranks).
///
/// Into symmetric tensors, "push": the root writes into all of them, or, for large tensors and three ranks or more, a
/// share into each, which that rank passes on (the scatter and all-gather of van de Geijn's broadcast, but with
/// decreasing share sizes, since the root sends them one after the other); "pull": the others read the root's tensor.
/// Into plain views, "fetch": the others read the root's view in place, if the system allows it (see Collective); or
/// "staged": pieces go through the root's part of the plan's memory, from which the others read them, or ("auto" on
/// CUDA, with three ranks or more) are passed on from rank to rank in that memory as in "direct_kernel". Into either,
/// "mail": the root writes into a mailbox at every other rank, and all ranks signal all others, one letter per step;
/// fastest for the smallest tensors. "one_kernel", on CUDA: the same in one kernel of up to 64 thread blocks (or
/// CollectiveOptions::sms; with 0, copy engines do all copies). "direct_kernel", on CUDA, into symmetric tensors: one
/// kernel, in which the root stores into the only other tensor, or, with three ranks or more, each other rank reads one
/// share from the root and stores it into all tensors but the root's, so that each byte leaves the root once.
class TANDEM_API Broadcast final : public Collective {
 public:
  /// Collective. Algorithms: "push", "pull" and "direct_kernel" for symmetric tensors ("auto" pushes where copies cost
  /// no cores, and pulls where they do, so that all ranks' cores copy), "staged" and "fetch" for plain views ("auto"
  /// fetches large ones), "mail" and "one_kernel" for both ("auto" uses "one_kernel" (CUDA) or "mail" (host) for small
  /// tensors, and "direct_kernel" for larger symmetric ones: between two ranks, or with `sms` set, for up to 64 MiB
  /// over the root's links).
  Broadcast(const Team& team, const BroadcastSpec& spec, const CollectiveOptions& options = {});

  /// The algorithm that a run of `count` elements uses.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const noexcept;

  /// In place: the root's tensor is read, the others' are written.
  void operator()(const SymmetricTensor& tensor, int root, StreamRef stream);
  void operator()(const TensorView& tensor, int root, StreamRef stream);
  /// `input` is used on the root only. It has as many elements as `out`, and is `out` itself or does not overlap it.
  void operator()(const TensorView& input, const SymmetricTensor& out, int root, StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, int root, StreamRef stream);

 private:
  enum class Way : std::uint8_t;
  /// The algorithm for `bytes` bytes.
  [[nodiscard]] Way way(std::size_t bytes, Tensors tensors) const noexcept;
  /// With a limit on SMs, large tensors are left to the copy engines.
  [[nodiscard]] bool kernel_may_pass_on(std::size_t bytes) const noexcept;
  /// Runs "mail" or "one_kernel", which work the same for all tensors; `input` is the root's. False: `way` is neither,
  /// nothing was queued.
  [[nodiscard]] bool run_alike(Way way, const void* input, void* out, std::int64_t count, int root, StreamRef stream);
  /// The number of ranks other than the root. Two or more can read shares from it and pass them on to each other.
  [[nodiscard]] int readers() const noexcept { return ranks() - 1; }
  void symmetric(const Rows& input, const SymmetricTensor& out, int root, StreamRef stream);
  void write_all(const Rows& input, const SymmetricTensor& out, std::size_t bytes);
  void push(const Rows& input, const SymmetricTensor& out, std::size_t bytes, int root, StreamRef stream);
  void pass_on(const Rows& input, const SymmetricTensor& out, std::size_t bytes, int root, StreamRef stream);
  void pull(const Rows& input, const SymmetricTensor& out, std::size_t bytes, int root, StreamRef stream);
  /// `place_at(rank)`: that rank's buffer of `bytes` bytes, as addressed by this rank; the root's is the source.
  template <typename PlaceAt>
  void pass_on_in_meeting(std::size_t bytes, int root, StreamRef stream, const PlaceAt& place_at);
  void fetch(const std::byte* input, std::byte* out, std::size_t bytes, int root, StreamRef stream);
  void staged(const Rows& input, const Rows& out, std::size_t bytes, int root, StreamRef stream);
  void staged_in_meetings(const Rows& input, const Rows& out, std::size_t bytes, int root, StreamRef stream);

  std::int64_t count_;
  bool pulls_;
  std::size_t passed_on_above_;    // bytes, by copies
  bool passes_pieces_on_ = false;  // plain views, by a kernel
  // Of the run that is being queued:
  std::vector<MailedPart> parts_;
  std::vector<int> others_;
  std::vector<void*> destinations_;
};

/// Runs the plan that `team` caches for this dtype and size class; the first call for each creates that plan, which is
/// collective. A plan serves counts up to the next power of two, at least 65536, and allocates memory for that many.
/// Throws InvalidArgument if the plan would have to be created while `stream` is being captured.
TANDEM_API void broadcast(const Team& team, const TensorView& tensor, int root, StreamRef stream);
TANDEM_API void broadcast(const Team& team, const TensorView& input, const TensorView& out, int root, StreamRef stream);
TANDEM_API void broadcast(const Team& team, const SymmetricTensor& tensor, int root, StreamRef stream);
TANDEM_API void broadcast(const Team& team, const TensorView& input, const SymmetricTensor& out, int root,
                          StreamRef stream);

}  // namespace tandem

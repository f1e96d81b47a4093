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

/// Every rank gets the root's tensor. The root, a rank of the team, may be another one in each run (equal on all
/// ranks).
///
/// Into symmetric tensors, "push": the root writes into all of them, or where that is large and there are three ranks
/// or more, a share into each, which that rank passes on (the scatter and all-gather of van de Geijn's broadcast, but
/// with shares that get smaller, since they leave the root one after the other); "pull": the others read the root's.
/// Into plain views, "fetch": the others read the root's where it is, where the system lets them (see Collective); or
/// "staged": the message goes in pieces through the root's part of the plan's memory, where the others read it, or on
/// CUDA, where there are three ranks or more, pass it on as "direct_kernel" does, from part to part. Into any, "mail":
/// the root writes into a mailbox at every other rank, and all tell all others that they have come so far, in as many
/// steps as there are letters; the shortest way for the shortest tensors. "one_kernel", on CUDA: the same in one kernel
/// of up to 64 thread blocks (or CollectiveOptions::sms, 0 of which leave all to copy engines). "direct_kernel", on
/// CUDA, into symmetric tensors: one kernel, in which the root stores into the other one, or where there are three
/// ranks or more, each of the others reads a share of the root's and stores it into all but that: each byte leaves the
/// root once.
class TANDEM_API Broadcast final : public Collective {
 public:
  /// Collective. Algorithms: "push", "pull" and "direct_kernel" for symmetric tensors ("auto" pushes where copies cost
  /// no cores, and pulls where they do, so that all ranks' cores copy), "staged" and "fetch" for plain views ("auto"
  /// fetches what is large), "mail" and "one_kernel" for both ("auto" takes the kernel (CUDA) or mails (host) what is
  /// small, and takes "direct_kernel" for what is larger: between two ranks, or with `sms`, for up to 64 MiB on
  /// the root's links).
  Broadcast(const Team& team, const BroadcastSpec& spec, const CollectiveOptions& options = {});

  /// What a run of `count` elements takes: one of the algorithms.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const noexcept;

  /// In place: the root's tensor is the source, the others' are written.
  void operator()(const SymmetricTensor& tensor, int root, StreamRef stream);
  void operator()(const TensorView& tensor, int root, StreamRef stream);
  /// `input` is looked at on the root alone. It has as many elements as `out`; it may be `out` itself, and else lies
  /// apart from it.
  void operator()(const TensorView& input, const SymmetricTensor& out, int root, StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, int root, StreamRef stream);

 private:
  enum class Way : std::uint8_t;
  /// How so many bytes go.
  [[nodiscard]] Way way(std::size_t bytes, Tensors tensors) const noexcept;
  /// A budget of multiprocessors may be too few for what is large: that is left to engines.
  [[nodiscard]] bool kernel_may_pass_on(std::size_t bytes) const noexcept;
  /// A run that goes alike between any tensors, by mail or in one kernel; `input` is the root's. False: the way is
  /// another one.
  [[nodiscard]] bool run_alike(Way way, const void* input, void* out, std::int64_t count, int root, StreamRef stream);
  /// How many are not the root. Several can read shares of it, and pass them on to each other.
  [[nodiscard]] int readers() const noexcept { return ranks() - 1; }
  /// For `describe`.
  [[nodiscard]] std::string in_words() const;
  void symmetric(const Rows& input, const SymmetricTensor& out, int root, StreamRef stream);
  void write_all(const Rows& input, const SymmetricTensor& out, std::size_t bytes);
  void push(const Rows& input, const SymmetricTensor& out, std::size_t bytes, int root, StreamRef stream);
  void pass_on(const Rows& input, const SymmetricTensor& out, std::size_t bytes, int root, StreamRef stream);
  void pull(const Rows& input, const SymmetricTensor& out, std::size_t bytes, int root, StreamRef stream);
  /// Between places of so many bytes, `place_at(rank)` as this rank reaches it; the root's holds them.
  template <typename PlaceAt>
  void pass_on_in_meeting(std::size_t bytes, int root, StreamRef stream, const PlaceAt& place_at);
  void fetch(const std::byte* input, std::byte* out, std::size_t bytes, int root, StreamRef stream);
  void staged(const Rows& input, const Rows& out, std::size_t bytes, int root, StreamRef stream);
  void staged_in_meetings(const Rows& input, const Rows& out, std::size_t bytes, int root, StreamRef stream);

  std::int64_t count_;
  bool pulls_;
  std::size_t passed_on_above_;    // by copies
  bool passes_pieces_on_ = false;  // of plain views, by a kernel
  // Of the run that is being queued:
  std::vector<MailedPart> parts_;
  std::vector<int> others_;
  std::vector<void*> destinations_;
};

/// Runs the plan that `team` keeps for this dtype and size; the first call of a kind makes it, and is collective. A
/// plan serves counts up to the next power of two, 65536 at least, which its memory is for. Throws InvalidArgument
/// where it would have to be made while the stream is captured.
TANDEM_API void broadcast(const Team& team, const TensorView& tensor, int root, StreamRef stream);
TANDEM_API void broadcast(const Team& team, const TensorView& input, const TensorView& out, int root, StreamRef stream);
TANDEM_API void broadcast(const Team& team, const SymmetricTensor& tensor, int root, StreamRef stream);
TANDEM_API void broadcast(const Team& team, const TensorView& input, const SymmetricTensor& out, int root,
                          StreamRef stream);

}  // namespace tandem

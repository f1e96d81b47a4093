// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/device/mailed_exchange.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "collective/collective_state.hpp"
#include "collective/rows.hpp"

namespace tandem {

/// The plan's state and its algorithms. What is public does what the plan's member of that name does, `run` what its
/// operator() does.
class Broadcast::State final : public CollectiveState {
 public:
  State(const Team& team, const BroadcastSpec& spec, const CollectiveOptions& options);

  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const;
  void run(const SymmetricTensor& tensor, int root, StreamRef stream);
  void run(const TensorView& tensor, int root, StreamRef stream);
  void run(const TensorView& input, const SymmetricTensor& out, int root, StreamRef stream);
  void run(const TensorView& input, const TensorView& out, int root, StreamRef stream);

 private:
  /// Throws InvalidArgument if the plan refuses such tensors.
  void expect_taken(Tensors tensors) const;
  /// In the order of `ways` in state.cpp.
  enum class Way : std::uint8_t { push, pull, staged, fetch, mail, one_kernel, direct_kernel };
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

}  // namespace tandem

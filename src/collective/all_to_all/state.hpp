// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/device/mailed_exchange.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "collective/all_to_all/counts.hpp"
#include "collective/collective_state.hpp"
#include "collective/rows.hpp"

namespace tandem {

/// The plan's state and its algorithms. What is public does what the plan's member of that name does, `run` what its
/// operator() does.
class AllToAll::State final : public CollectiveState {
 public:
  State(const Team& team, const AllToAllSpec& spec, const CollectiveOptions& options);

  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const;
  void run(const TensorView& input, const SymmetricTensor& out, StreamRef stream);
  void run(const SymmetricTensor& input, const TensorView& out, StreamRef stream);
  void run(const TensorView& input, const TensorView& out, StreamRef stream);
  void run(const TensorView& input, const SymmetricTensor& out, std::span<const std::int64_t> counts, StreamRef stream);
  void run(const SymmetricTensor& input, const TensorView& out, std::span<const std::int64_t> counts, StreamRef stream);
  void run(const TensorView& input, const TensorView& out, std::span<const std::int64_t> counts, StreamRef stream);

 private:
  /// Throws InvalidArgument if the plan refuses such tensors.
  void expect_taken(Tensors tensors) const;
  /// In the order of `ways` in state.cpp.
  enum class Way : std::uint8_t { push, pull, staged, fetch, mail, one_kernel, direct_kernel };
  /// The algorithm for parts of up to `bytes` bytes; `aligned`: all parts allow vector accesses.
  [[nodiscard]] Way way(std::size_t bytes, Tensors tensors, bool aligned) const noexcept;
  /// The algorithm of the run that is being queued.
  [[nodiscard]] Way way(Tensors tensors) const noexcept;
  /// Runs "mail" or "one_kernel", which work the same for all tensors. False: `way` is neither, nothing was queued.
  [[nodiscard]] bool run_alike(Way way, const std::byte* input, std::byte* out, StreamRef stream);
  void take_equal(std::int64_t elements);
  void take(std::span<const std::int64_t> counts);
  void expect_room(const SymmetricTensor& tensor, std::string_view argument, std::int64_t elements) const;
  void push(const TensorView& input, const SymmetricTensor& out, StreamRef stream);
  void pull(const SymmetricTensor& input, const TensorView& out, StreamRef stream);
  void plain(const TensorView& input, const TensorView& out, StreamRef stream);
  void fetch(const std::byte* input, std::byte* out, StreamRef stream);
  void staged(const Rows& input, const Rows& out, std::size_t longest, StreamRef stream);

  std::int64_t count_;
  // Of the run that is being queued:
  Counts counts_;
  std::vector<MailedPart> parts_;
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/shard.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "collective/chunk.hpp"
#include "collective/collective_state.hpp"

namespace tandem {

/// The plan's state and its algorithms. What is public does what the plan's member of that name does, `run` what its
/// operator() does.
class AllReduce::State final : public CollectiveState {
 public:
  State(const Team& team, const AllReduceSpec& spec, const CollectiveOptions& options);

  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const;
  void run(const SymmetricTensor& tensor, StreamRef stream);
  void run(const SymmetricTensor& input, const SymmetricTensor& out, StreamRef stream);
  void run(const TensorView& input, const SymmetricTensor& out, StreamRef stream);
  void run(const SymmetricTensor& input, const TensorView& out, StreamRef stream);
  void run(const TensorView& input, const TensorView& out, StreamRef stream);

 private:
  /// Throws InvalidArgument if the plan refuses such tensors.
  void expect_taken(Tensors tensors) const;
  /// In the order of `ways` in state.cpp.
  enum class Way : std::uint8_t {
    one_shot,
    two_shot,
    fetch,
    mail,
    one_kernel,
    one_kernel_two_shot,
    direct_kernel,
    copy
  };
  [[nodiscard]] Way way(std::int64_t count, Tensors tensors) const noexcept;
  [[nodiscard]] bool takes_one_shot(std::int64_t count, Tensors tensors) const noexcept;
  [[nodiscard]] Shard chunk(std::int64_t count, int rank) const noexcept {
    return chunk_of(count, element_bytes(), ranks(), rank);
  }
  void in_place(Way way, const SymmetricTensor& input, const SymmetricTensor& out, std::int64_t count,
                StreamRef stream);
  /// The number of steps if one kernel runs it; 0: it is not run by one kernel.
  [[nodiscard]] int kernel_steps(std::int64_t count) const noexcept;
  /// Runs the algorithms that work the same for plain and symmetric tensors. False: `way` is not one of them.
  [[nodiscard]] bool run_alike(Way way, const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream);
  void mail(const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream);
  void one_kernel(const std::byte* input, std::byte* out, std::int64_t count, int steps, StreamRef stream);
  void one_shot(const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream);
  void fetch(const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream);
  void two_shot(const std::byte* input, const SymmetricTensor* symmetric, std::byte* out, std::int64_t count,
                StreamRef stream);

  std::int64_t count_;
  std::vector<const void*> sources_;
  std::vector<void*> destinations_;
};

}  // namespace tandem

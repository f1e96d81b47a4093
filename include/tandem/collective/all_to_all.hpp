// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/collective/collective.hpp"

namespace tandem {

struct AllToAllSpec {
  std::int64_t count = 0;  ///< elements from one rank to another; an upper bound for all runs and pairs
  DType dtype = f32;       ///< any
};

/// Rank i sends part j of its input to rank j, where it becomes part i of the output. Parts are stored contiguously in
/// rank order. Without `counts` they are equal: each tensor has ranks · c elements. With `counts`, rank i sends
/// counts[i · ranks + j] elements to rank j: ranks² values, each at least 0, the same on all ranks (compared only with
/// TANDEM_CHECK=runs). Input and output must not overlap: InvalidArgument where an overlap can be detected.
///
/// Into a symmetric tensor, "push": each rank writes its parts directly into its peers' tensors. From a symmetric
/// tensor into a plain view, "pull": each rank reads its parts from its peers' tensors. Between plain views, "fetch":
/// each rank reads its parts in place, if the system allows it (see Collective); or "staged": parts are staged in
/// pieces in the plan's own memory. Between any tensors, "mail": each rank writes its parts into mailboxes at its
/// peers, one letter per step; fastest for the smallest parts. "one_kernel", on CUDA: the same in one kernel of up to
/// 64 thread blocks (or CollectiveOptions::sms; with 0, copy engines do all copies). "direct_kernel", on CUDA, into or
/// out of a symmetric tensor: one kernel that stores into all ranks' tensors, or loads from them.
class TANDEM_API AllToAll final : public Collective {
 public:
  /// Collective. Algorithms: "push", "pull", "staged", "fetch" and "direct_kernel", each for the tensors above; "mail"
  /// and "one_kernel" for all. "auto" chooses one that fits the tensors: "fetch" for large plain views; "mail" (host)
  /// or "one_kernel" (CUDA) if every part is small; with a symmetric tensor, "direct_kernel" for up to 256 MiB per rank
  /// over its links if each part is a multiple of 16 bytes.
  AllToAll(const Team& team, const AllToAllSpec& spec, const CollectiveOptions& options = {});

  /// The algorithm that a run with parts of up to `count` elements uses.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const noexcept;

  void operator()(const TensorView& input, const SymmetricTensor& out, StreamRef stream);
  void operator()(const SymmetricTensor& input, const TensorView& out, StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, StreamRef stream);

  // Symmetric tensors have the same size on all ranks: large enough for the rank that needs most. Plain views have
  // exactly the number of elements that their rank sends or receives.
  void operator()(const TensorView& input, const SymmetricTensor& out, std::span<const std::int64_t> counts,
                  StreamRef stream);
  void operator()(const SymmetricTensor& input, const TensorView& out, std::span<const std::int64_t> counts,
                  StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, std::span<const std::int64_t> counts,
                  StreamRef stream);

 private:
  /// How much each rank sends to each other one in one run, and the offsets of the parts.
  class Exchange {
   public:
    /// Equal parts of `count` elements.
    void assign(std::int64_t ranks, std::int64_t count);
    void assign(std::int64_t ranks, std::span<const std::int64_t> counts);

    [[nodiscard]] std::int64_t count(int from, int to) const noexcept { return counts_[index(from, to)]; }
    /// Offsets in elements: of the part for `to` in `from`'s input, and of the part of `from` in `to`'s output.
    [[nodiscard]] std::int64_t place_in_input(int from, int to) const noexcept { return sent_before_[index(from, to)]; }
    [[nodiscard]] std::int64_t place_in_out(int from, int to) const noexcept { return got_before_[index(from, to)]; }
    [[nodiscard]] std::int64_t sent(int rank) const noexcept;
    [[nodiscard]] std::int64_t got(int rank) const noexcept;
    [[nodiscard]] std::int64_t longest() const noexcept;
    [[nodiscard]] std::string in_words() const;
    /// Whether the size of each part is a multiple of `unit` elements.
    [[nodiscard]] bool divides_by(std::int64_t unit) const noexcept;

   private:
    [[nodiscard]] std::size_t index(int from, int to) const noexcept {
      return static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to);
    }
    void place();
    std::size_t ranks_ = 0;
    std::vector<std::int64_t> counts_;
    std::vector<std::int64_t> sent_before_;
    std::vector<std::int64_t> got_before_;
  };

  enum class Way : std::uint8_t;
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
  Exchange exchange_;
  std::vector<MailedPart> parts_;
};

/// Runs the plan that `team` caches for this dtype and size class; the first call for each creates that plan, which is
/// collective. A plan serves counts up to the next power of two, at least 65536, and allocates memory for that many.
/// Throws InvalidArgument if the plan would have to be created while `stream` is being captured.
TANDEM_API void all_to_all(const Team& team, const TensorView& input, const TensorView& out, StreamRef stream);
TANDEM_API void all_to_all(const Team& team, const TensorView& input, const TensorView& out,
                           std::span<const std::int64_t> counts, StreamRef stream);
TANDEM_API void all_to_all(const Team& team, const TensorView& input, const SymmetricTensor& out, StreamRef stream);
TANDEM_API void all_to_all(const Team& team, const TensorView& input, const SymmetricTensor& out,
                           std::span<const std::int64_t> counts, StreamRef stream);
TANDEM_API void all_to_all(const Team& team, const SymmetricTensor& input, const TensorView& out, StreamRef stream);
TANDEM_API void all_to_all(const Team& team, const SymmetricTensor& input, const TensorView& out,
                           std::span<const std::int64_t> counts, StreamRef stream);

}  // namespace tandem

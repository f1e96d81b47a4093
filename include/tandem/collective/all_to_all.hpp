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
  std::int64_t count = 0;  ///< elements from one rank to one other; an upper bound for all runs and pairs
  DType dtype = f32;       ///< any
};

/// Rank i sends part j of its input to rank j, where it becomes part i of the output. Parts lie one after the other in
/// rank order. Without `counts` they are equal: each tensor has ranks · c elements. With them, rank i sends
/// counts[i · ranks + j] elements to rank j: ranks² values, at least 0, the same on all ranks (which TANDEM_CHECK=runs
/// has compared). Input and output never overlap: an InvalidArgument where that can be seen.
///
/// Into a symmetric tensor, "push": each rank writes its parts straight into its peers' tensors. From a symmetric
/// tensor into a plain view, "pull": each rank reads them there. Between plain views, "fetch": each rank reads its
/// parts where they are, where the system lets it (see Collective); or "staged": parts go in pieces through the plan's
/// own memory. From any to any, "mail": each rank writes its parts into mailboxes at its peers, in as many steps as it
/// has letters; the shortest way for the shortest parts. "one_kernel", on CUDA: the same in one kernel of up to 64
/// thread blocks (or CollectiveOptions::sms, 0 of which leave all to copy engines). "direct_kernel", on CUDA, into or
/// out of a symmetric tensor: one kernel that stores into all ranks' tensors, or loads from them.
class TANDEM_API AllToAll final : public Collective {
 public:
  /// Collective. Algorithms: "push", "pull", "staged", "fetch", "direct_kernel", each for the tensors above, "mail" and
  /// "one_kernel" for all; "auto" takes the one that fits, and fetches what is large; where no pair of ranks has much
  /// to say it mails (host) or takes one kernel (CUDA), and of symmetric tensors "direct_kernel" for up to 256 MiB on a
  /// rank's links, where each part is a multiple of 16 bytes.
  AllToAll(const Team& team, const AllToAllSpec& spec, const CollectiveOptions& options = {});

  /// What a run with parts of up to `count` elements takes: one of the algorithms.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const noexcept;

  void operator()(const TensorView& input, const SymmetricTensor& out, StreamRef stream);
  void operator()(const SymmetricTensor& input, const TensorView& out, StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, StreamRef stream);

  // Symmetric tensors have one size on all ranks: room for the rank that needs most. Plain views have exactly what
  // their rank sends or gets.
  void operator()(const TensorView& input, const SymmetricTensor& out, std::span<const std::int64_t> counts,
                  StreamRef stream);
  void operator()(const SymmetricTensor& input, const TensorView& out, std::span<const std::int64_t> counts,
                  StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, std::span<const std::int64_t> counts,
                  StreamRef stream);

 private:
  /// Who sends how much to whom in one run, and where it lies.
  class Exchange {
   public:
    /// Fills in equal parts.
    void assign(std::int64_t ranks, std::int64_t count);
    void assign(std::int64_t ranks, std::span<const std::int64_t> counts);

    [[nodiscard]] std::int64_t count(int from, int to) const noexcept { return counts_[index(from, to)]; }
    /// Elements before the part for `to` in the input of `from`, and before the part of `from` in the output of `to`.
    [[nodiscard]] std::int64_t place_in_input(int from, int to) const noexcept { return sent_before_[index(from, to)]; }
    [[nodiscard]] std::int64_t place_in_out(int from, int to) const noexcept { return got_before_[index(from, to)]; }
    [[nodiscard]] std::int64_t sent(int rank) const noexcept;
    [[nodiscard]] std::int64_t got(int rank) const noexcept;
    [[nodiscard]] std::int64_t longest() const noexcept;
    [[nodiscard]] std::string in_words() const;
    /// Whether each part has a multiple of `unit` elements.
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
  /// How parts of up to so many bytes go; `aligned` if vector accesses fit all of them.
  [[nodiscard]] Way way(std::size_t bytes, Tensors tensors, bool aligned) const noexcept;
  /// How the run that is being queued goes.
  [[nodiscard]] Way way(Tensors tensors) const noexcept;
  /// A run that goes alike between any tensors, by mail or in one kernel. False: the way is another one.
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

/// Runs the plan that `team` keeps for this dtype and size; the first call of a kind makes it, and is collective. A
/// plan serves counts up to the next power of two, 65536 at least, which its memory is for. Throws InvalidArgument
/// where it would have to be made while the stream is captured.
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_spec.hpp"

#include "linear/communication_streams.hpp"
#include "linear/groups.hpp"
#include "memory/mail_lanes.hpp"
#include "memory/meeting_place.hpp"
#include "memory/owners.hpp"
#include "memory/slots.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// A row-parallel GEMM and the reduce-scatter after it: each rank multiplies all rows by its share of K, sends every
/// rank's rows to their owner, and sums what it receives for its own rows, in rank order and in fp32. After an unsplit
/// GEMM, kernels do what follows, where the device has them, including an all-reduce's second half.
class PartialSums {
 public:
  enum class Rows : std::uint8_t { own, all };  ///< whose sums each rank gets

  struct Operands {
    const std::byte* x;
    const void* weight;
    const void* bias;
    std::byte* y;  ///< this rank's rows: the operand of beta, and the result
    std::int64_t m;
    const SymmetricMemory* symmetric = nullptr;  ///< where all rows of y begin on all ranks, if y is symmetric
  };

  /// Collective. With Rows::all each slot has a tail, from which peers copy the sums of this rank's rows. `rounds`: for
  /// what runs in rounds, the part of every rank's rows that each computes (`shard` is ignored); otherwise one, the
  /// whole shard.
  PartialSums(const Team& team, const LinearSpec& spec, const LinearChoice& choice, Rows rows,
              std::vector<ShardPart> rounds, std::uint32_t operation);

  [[nodiscard]] const Gemm& gemm() const { return *gemm_; }
  /// How the own rows' GEMMs run if they add what was sent and differ from the others, for a plan's `describe`; else
  /// empty.
  [[nodiscard]] std::string adding() const {
    return adding_gemm_ ? "of the own rows, " + adding_gemm_->describe() : "";
  }
  /// Owners of what its runs use.
  [[nodiscard]] Owners owners() const;

  /// For a team of one: all of y, as one GEMM.
  void multiply_alone(const Operands& run, StreamRef stream);

  /// Multiplies the groups, of which there is one at least, in order, pushing each while the next one is multiplied,
  /// and the last while the own rows are.
  void multiply_overlapped(const Operands& run, std::span<const ShardGroup> groups, StreamRef stream,
                           CommunicationStreams& communication);

  // Multiplying and pushing in rounds, each of one part of every rank's rows.

  [[nodiscard]] std::uint32_t rounds() const noexcept { return static_cast<std::uint32_t>(rounds_.size()); }
  /// Begins a run in rounds.
  void take_slot(StreamRef stream);
  /// Multiplies the round's part of each peer's rows, pushing it while the next peer's is multiplied.
  void multiply_peers(const Operands& run, std::uint32_t round, StreamRef stream, CommunicationStreams& communication);
  void multiply_own(const Operands& run, std::uint32_t round, StreamRef stream) {
    multiply_own(run, rounds_[round], region(team_.rank(), team_.rank()), stream);
  }
  /// Between two ranks: whether the own rows' GEMMs, which come after the peer's, add what the peer has sent.
  [[nodiscard]] bool product_adds() const noexcept { return product_adds_; }
  /// Waits for the peer's partial sums of the round's own rows, and multiplies: GEMM + these + bias, into y or, with
  /// Rows::all, into the slot's tail, from which both ranks copy them.
  void multiply_adding(const Operands& run, std::uint32_t round, StreamRef stream);
  /// Waits for the peers' partial sums of the round's own rows.
  void wait_for_parts(std::uint32_t round, StreamRef stream) const;
  /// Sums them, after `wait_for_parts`: y = activation(Σ + bias).
  void add_parts(const Operands& run, std::uint32_t round, StreamRef stream) const { add(run, rounds_[round], stream); }
  /// `wait_for_parts` and `add_parts`.
  void reduce(const Operands& run, std::uint32_t round, StreamRef stream) const {
    wait_for_parts(round, stream);
    add_parts(run, round, stream);
  }

  /// Whether kernels do what follows the GEMM of `in_sequence`, which then leaves all rows that the caller gets.
  [[nodiscard]] bool takes_kernels() const noexcept { return lanes_.bytes() != 0 || meeting_; }
  /// What communicates and what sums, for a plan's `describe`.
  [[nodiscard]] std::string communication() const;

  /// Multiplies once, then pushes everything in one batch and sums, like `reduce`; or has kernels do both.
  void in_sequence(const Operands& run, StreamRef stream);
  /// Multiplies each peer's rows directly into its slot, the own rows last. Nothing is copied.
  void multiply_direct(const Operands& run, StreamRef stream, CommunicationStreams& streams);
  /// `reduce` for what does not run in rounds.
  void reduce(const Operands& run, StreamRef stream) const { reduce(run, 0, stream); }
  /// Allows the peers to push into this run's slot again, and to overwrite the tails of their own. After `reduce` and
  /// `take_sums`.
  void finish(StreamRef stream) const {
    if (!takes_kernels()) slots_.grant(stream, slot_, slots_.peers());
  }

  // Only with Rows::all.

  /// Call after summing the own rows: the peers may take the sums.
  void offer_sums(StreamRef stream) const { slots_.signal(stream, slot_, slots_.peers(), in_tail); }
  /// Waits until the peers offer theirs. On a stream of its own it need not, and should not, be ordered after the
  /// GEMMs: a kernel that is launched as a GEMM begins may have to wait until that one ends.
  void wait_for_sums(StreamRef stream) const;
  /// Copies the peers' sums into y.
  void take_sums(const Operands& run, std::uint32_t round, StreamRef stream) const;
  /// Copies all own sums, which `multiply_adding` left in the tail, into y, while the peers' last ones are in transfer:
  /// concurrently with those of each round, such copies would slow the link.
  void keep_sums(const Operands& run, StreamRef stream) const;
  /// offer_sums, wait_for_sums and take_sums, after `reduce`, for what does not run in rounds.
  void spread_sums(const Operands& run, StreamRef stream) const {
    offer_sums(stream);
    wait_for_sums(stream);
    take_sums(run, 0, stream);
  }

 private:
  static constexpr ShardPart whole_shard{};
  // What ranks signal to each other: my sums are in my tail; a round's partial sums of your rows are in your slot.
  static constexpr std::uint32_t in_tail = 0;
  static constexpr std::uint32_t in_region(std::uint32_t round) noexcept { return 1 + round; }

  void multiply(const Operands& run, Shard rows, float beta, std::byte* d, StreamRef stream) {
    multiply(*gemm_, weights_, run, rows, {.d = d, .beta = beta}, stream);
  }
  /// `into` says where the result goes and what is added; the rest of it is set here.
  void multiply(Gemm& gemm, Weights& weights, const Operands& run, Shard rows, GemmOperands into, StreamRef stream);
  void multiply_staged(const Operands& run, Shard rows, StreamRef stream);
  /// Multiplies the part's own rows into `sums`: this rank's region of its slot, or where the others' results are.
  void multiply_own(const Operands& run, const ShardPart& part, std::byte* sums, StreamRef stream);
  void multiply_first(const Operands& run, StreamRef stream);
  void reduce_by_mail(const Operands& run, StreamRef stream) const;
  /// Whether each rank of an all-reduce sums all rows in a meeting. Two ranks then read no more from each other, but
  /// with an activation the twofold rows cost the few blocks that fill the links more than a second meeting.
  [[nodiscard]] bool adds_up_all() const noexcept {
    return rows_ == Rows::all && team_.size() == 2 && spec_.activation == Activation::none;
  }
  /// Sums what is in all ranks' memory: all rows; or the own ones, after which an all-reduce copies the peers' sums.
  void reduce_in_meeting(const Operands& run, StreamRef stream) const;
  /// Each rank sums its own rows, and stores them into all ranks' symmetric y.
  void reduce_into_all(const Operands& run, StreamRef stream) const;
  /// Whether that is possible, and faster than mail, which would take two steps.
  [[nodiscard]] bool stores_into_all(const Operands& run) const;
  void take_sums_in_meeting(const Operands& run, StreamRef stream) const;
  /// Pushes a part to its owner; its `last` one of a round with a signal, counted when the slot was taken.
  void push(const Operands& run, const ShardPart& part, bool last, std::uint32_t round, StreamRef stream) const;
  void push_all(const Operands& run, StreamRef stream) const;
  void add(const Operands& run, const ShardPart& part, StreamRef stream) const;
  /// This rank's rows of a part.
  [[nodiscard]] Shard own_rows(std::int64_t m, const ShardPart& part) const {
    return part_rows(m, team_.size(), team_.rank(), part);
  }
  /// The sum of `rows` rows, with the bias and activation that follow it.
  [[nodiscard]] Reduction sum_of(const Operands& run, std::span<const void* const> sources,
                                 std::span<void* const> destinations, std::int64_t rows) const;
  /// The region of `rank`'s slot for what `from` sends.
  [[nodiscard]] std::byte* region(int rank, int from) const {
    return slots_.remote(slot_, rank) + static_cast<std::size_t>(from) * region_bytes_;
  }
  [[nodiscard]] std::byte* tail(int rank) const { return slots_.remote(slot_, rank) + tail_offset_; }
  [[nodiscard]] bool has_tail() const noexcept { return rows_ == Rows::all; }
  /// Where all rows of y begin, of which `y` has this rank's.
  [[nodiscard]] std::byte* all_rows(const Operands& run) const {
    return run.y - static_cast<std::size_t>(shard_of(run.m, team_.size(), team_.rank()).begin) * row_bytes_;
  }
  /// Bytes from the first of `owner`'s rows to the first of `rows`.
  [[nodiscard]] std::size_t bytes_before(const Operands& run, int owner, const Shard& rows) const;
  /// This rank's partial sums of row `row`, before they are pushed.
  [[nodiscard]] std::byte* staged(std::int64_t row) const {
    std::byte* const rows = meeting_ ? meeting_.memory(team_.rank()) : staging_->data_as<std::byte>();
    return rows + static_cast<std::size_t>(row) * row_bytes_;
  }

  Team team_;
  LinearSpec spec_;
  std::size_t row_bytes_;
  std::size_t region_bytes_;  ///< of the region in a slot for what one rank sends
  std::size_t tail_offset_;
  Rows rows_;
  std::vector<ShardPart> rounds_;
  std::optional<int> sms_;
  bool copies_;           ///< results are pushed, not stored into peers' memory by the GEMMs
  MeetingPlace meeting_;  ///< large sizes: kernels work on all ranks' results, in its memory
  MailLanes lanes_;       ///< small sizes: one kernel, at least if y is not symmetric
  Slots slots_;
  Reclaimed<Buffer> staging_;  ///< all rows' results, unless GEMMs store them at their owners or in meeting_
  Reclaimed<Gemm> gemm_;
  bool product_adds_;
  Reclaimed<Gemm> adding_gemm_;  ///< null if gemm_ does it
  // This run's:
  int slot_ = 0;
  Weights weights_ = Weights::once;         ///< for the next run of gemm_
  Weights adding_weights_ = Weights::once;  ///< for the next run of adding_gemm_
  const std::byte* own_ = nullptr;          ///< the own rows' partial sums
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_spec.hpp"
#include "tandem/memory/mail_lanes.hpp"
#include "tandem/memory/meeting_place.hpp"
#include "tandem/memory/slots.hpp"
#include "tandem/team/reclaimed.hpp"

#include "linear/communication_streams.hpp"
#include "linear/groups.hpp"

namespace tandem {

/// A row-parallel product and the reducing half of what follows it: each rank multiplies all rows with its share of K,
/// every rank's rows go to their owner, and each adds up what came for its own, in rank order and in fp32. What is
/// multiplied at once is kernels' behind the product, where the device has them; for an all-reduce that is all.
class PartialSums {
 public:
  enum class Rows : std::uint8_t { own, all };  ///< whose sums a rank is to have in the end

  struct Operands {
    const std::byte* x;
    const void* weight;
    const void* bias;
    std::byte* y;  ///< this rank's rows: what beta multiplies, and where the sum goes
    std::int64_t m;
    const SymmetricMemory* symmetric = nullptr;  ///< where y, all rows of it, begins on all ranks, if it is symmetric
  };

  /// Collective. With Rows::all each slot has a tail, where the sums of the own rows are for the peers to take.
  /// `rounds`: what runs in rounds, part after part of every rank's rows, whatever `shard` these name; one, the whole,
  /// for what does not.
  PartialSums(const Team& team, const LinearSpec& spec, const LinearChoice& choice, Rows rows,
              std::vector<ShardPart> rounds, std::uint32_t operation);

  [[nodiscard]] const Gemm& gemm() const { return *gemm_; }
  /// How the own rows' products run where they add what was sent and are not like the others, for a plan's `describe`;
  /// else empty.
  [[nodiscard]] std::string adding() const {
    return adding_gemm_ ? "of the own rows, " + adding_gemm_->describe() : "";
  }
  /// What its runs use.
  [[nodiscard]] std::vector<std::shared_ptr<void>> parts() const;

  /// A rank that is alone: y = activation(product + bias), as one product.
  void multiply_alone(const Operands& run, StreamRef stream);

  /// Multiplies the groups in their order, pushing each while the next is multiplied; own rows last.
  void multiply_overlapped(const Operands& run, std::span<const ShardGroup> groups, StreamRef stream,
                           CommunicationStreams& communication);

  // The same in rounds, each of one part of every rank's rows.

  [[nodiscard]] std::uint32_t rounds() const noexcept { return static_cast<std::uint32_t>(rounds_.size()); }
  /// Begins a run in rounds.
  void take_slot(StreamRef stream);
  /// Multiplies the part of each peer's rows, pushing it while the next one's is multiplied.
  void multiply_peers(const Operands& run, std::uint32_t round, StreamRef stream, CommunicationStreams& communication);
  void multiply_own(const Operands& run, std::uint32_t round, StreamRef stream) {
    multiply_own(run, rounds_[round], region(team_.rank(), team_.rank()), stream);
  }
  /// Between two ranks: whether the products of the own rows, behind all of the peer's, add what that one has sent.
  [[nodiscard]] bool product_adds() const noexcept { return product_adds_; }
  /// Waits for the peer's same part of the own rows, and multiplies: product + peer's part + bias, into y, or into the
  /// slot's tail where both ranks take it from.
  void multiply_adding(const Operands& run, std::uint32_t round, StreamRef stream);
  /// Waits for the others' same part of the own rows, and adds: y = activation(Σ + bias).
  void reduce(const Operands& run, std::uint32_t round, StreamRef stream);

  /// `in_sequence` runs kernels behind the product, and leaves all rows that the caller is to have.
  [[nodiscard]] bool takes_kernels() const noexcept { return lanes_.bytes() != 0 || meeting_; }
  /// What communicates and what adds up, for a plan's `describe`.
  [[nodiscard]] std::string communication() const;

  /// Multiplies once, then pushes all in one batch, and does what `reduce` does.
  void in_sequence(const Operands& run, StreamRef stream);
  /// Multiplies each peer's rows straight into its slot; own rows last. Nothing is copied.
  void multiply_direct(const Operands& run, StreamRef stream, CommunicationStreams& streams);
  /// Of what does not run in rounds: waits for the others' parts of the own rows, and adds.
  void reduce(const Operands& run, StreamRef stream) { reduce(run, 0, stream); }
  /// The peers may push into this run's slot again, and write what they have in its tail. After `reduce` and
  /// `take_sums`.
  void finish(StreamRef stream) const {
    if (!takes_kernels()) slots_.grant(stream, slot_, slots_.peers());
  }

  // With Rows::all.

  /// Behind the sums of the own rows: the peers may take them.
  void offer_sums(StreamRef stream) const { slots_.signal(stream, slot_, slots_.peers(), in_tail); }
  /// Until the peers offer theirs. On a stream of its own this need not follow the products, and had better not: a
  /// kernel that comes as a product begins may have to wait until that one ends.
  void wait_for_sums(StreamRef stream) const;
  /// Copies them into y.
  void take_sums(const Operands& run, std::uint32_t round, StreamRef stream) const;
  /// Copies the own ones into y, all that `multiply_adding` made, while the peers' last are on their way: beside those
  /// of each part they slow the link.
  void keep_sums(const Operands& run, StreamRef stream) const;
  /// All three, of what does not run in rounds, behind `reduce`.
  void spread_sums(const Operands& run, StreamRef stream) const {
    offer_sums(stream);
    wait_for_sums(stream);
    take_sums(run, 0, stream);
  }

 private:
  static constexpr ShardPart whole_shard{};
  // What ranks signal to each other: sums of mine are there, and a round's part of your rows' products is.
  static constexpr std::uint32_t in_tail = 0;
  static constexpr std::uint32_t in_region(std::uint32_t round) noexcept { return 1 + round; }

  void multiply(const Operands& run, RowRange rows, float beta, std::byte* d, StreamRef stream) {
    multiply(*gemm_, weights_, run, rows, {.d = d, .beta = beta}, stream);
  }
  /// `into` says what is added and where it goes.
  void multiply(Gemm& gemm, Weights& weights, const Operands& run, RowRange rows, GemmOperands into, StreamRef stream);
  void multiply_staged(const Operands& run, RowRange rows, StreamRef stream);
  /// Into the slot, beside what the peers send, or where `sums` says that the own rows' products go.
  void multiply_own(const Operands& run, const ShardPart& part, std::byte* sums, StreamRef stream);
  void multiply_first(const Operands& run, StreamRef stream);
  void reduce_by_mail(const Operands& run, StreamRef stream) const;
  /// Whether an all-reduce in a meeting has each rank add up all rows. Two ranks read no more of each other so; but
  /// activations of twice the rows cost the few blocks that fill the links more than a second meeting.
  [[nodiscard]] bool adds_up_all() const noexcept {
    return rows_ == Rows::all && team_.size() == 2 && spec_.activation == Activation::none;
  }
  /// Adds up what lies in all ranks' memory: all rows, or the own ones, and takes the others' sums from the peers.
  void reduce_in_meeting(const Operands& run, StreamRef stream) const;
  /// Each the own rows, into all ranks' symmetric y.
  void reduce_into_all(const Operands& run, StreamRef stream) const;
  /// Whether that is faster than what goes by mail, which then would take two steps.
  [[nodiscard]] bool stores_into_all(const Operands& run) const;
  void take_sums_in_meeting(const Operands& run, StreamRef stream) const;
  /// To its owner; the last that this one gets in a round with its signal, counted when the slot was taken.
  void push(const Operands& run, const ShardPart& part, bool last, std::uint32_t round, StreamRef stream) const;
  void push_all(const Operands& run, StreamRef stream) const;
  void add(const Operands& run, const ShardPart& part, StreamRef stream) const;
  /// The own rows of a part.
  [[nodiscard]] RowRange own_rows(std::int64_t m, const ShardPart& part) const {
    return part_rows(m, team_.size(), team_.rank(), part);
  }
  /// Of so many rows, with what comes behind the sum.
  [[nodiscard]] Reduction sum_of(const Operands& run, std::span<const void* const> sources,
                                 std::span<void* const> destinations, std::int64_t rows) const;
  /// Of `rank`'s slot, what `from` sends.
  [[nodiscard]] std::byte* region(int rank, int from) const {
    return slots_.remote(slot_, rank) + static_cast<std::size_t>(from) * region_bytes_;
  }
  [[nodiscard]] std::byte* tail(int rank) const { return slots_.remote(slot_, rank) + tail_offset_; }
  [[nodiscard]] bool has_tail() const noexcept { return rows_ == Rows::all; }
  /// Where y's rows begin, all of them.
  [[nodiscard]] std::byte* all_rows(const Operands& run) const {
    return run.y - static_cast<std::size_t>(shard_rows(run.m, team_.size(), team_.rank()).begin) * row_bytes_;
  }
  /// From the first of `owner`'s rows to the first of these.
  [[nodiscard]] std::size_t bytes_before(const Operands& run, int owner, const RowRange& rows) const;
  /// This rank's partial products of row `row`, before they are pushed.
  [[nodiscard]] std::byte* staged(std::int64_t row) const {
    std::byte* const rows = meeting_ ? meeting_.memory(team_.rank()) : staging_->data_as<std::byte>();
    return rows + static_cast<std::size_t>(row) * row_bytes_;
  }

  Team team_;
  LinearSpec spec_;
  std::size_t row_bytes_;
  std::size_t region_bytes_;  ///< of a slot, for what one rank sends
  std::size_t tail_offset_;
  Rows rows_;
  std::vector<ShardPart> rounds_;
  std::optional<int> sms_;
  bool copies_;           ///< products are pushed, not stored by who makes them
  MeetingPlace meeting_;  ///< where what is large is kernels', and all ranks' products lie in their memory
  MailLanes lanes_;       ///< where what is small is one kernel's, at least into memory that is not symmetric
  Slots slots_;
  Reclaimed<Buffer> staging_;  ///< all rows' products, unless they go straight to their owners
  Reclaimed<Gemm> gemm_;
  bool product_adds_;
  Reclaimed<Gemm> adding_gemm_;  ///< null where it is like any other
  // This run's:
  int slot_ = 0;
  Weights weights_ = Weights::once;         ///< what the next product says of them
  Weights adding_weights_ = Weights::once;  ///< the same of adding_gemm_
  const std::byte* own_ = nullptr;          ///< the own rows' partial products
};

}  // namespace tandem

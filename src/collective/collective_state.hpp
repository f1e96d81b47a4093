// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/dtype.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/base/trace.hpp"
#include "tandem/collective/collective.hpp"
#include "tandem/collective/shard.hpp"
#include "tandem/device/mail.hpp"
#include "tandem/device/mailed_exchange.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/device/trace_range.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/team.hpp"

#include "collective/copy_batch.hpp"
#include "collective/plan_state.hpp"
#include "collective/rows.hpp"
#include "collective/split.hpp"
#include "device/corked.hpp"
#include "memory/mail_lanes.hpp"
#include "memory/meeting_place.hpp"
#include "memory/slots.hpp"

namespace tandem {

struct AlgorithmNote;
struct AlgorithmRow;

/// What the five collectives have in common behind their public classes: checks of tensors, the choice between
/// algorithms as far as they share them, staging memory, mailboxes, and the steps that runs consist of.
class CollectiveState : public PlanState {
 public:
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }

 protected:
  [[nodiscard]] Split split(const TensorView& view) const;

  CollectiveState(const Team& team, std::string kind, const std::string& what, DType dtype,
                  const CollectiveOptions& options, std::span<const std::string_view> algorithms);

  /// Collective. Creates mailboxes for runs in one kernel, of up to `bytes` of each shard, if this plan may choose such
  /// runs or was asked for one of those algorithms (names that begin with "one_kernel"). Throws Unsupported if one was
  /// asked for and the device has none, InvalidArgument if on 0 SMs.
  void make_lanes(std::size_t bytes);
  /// Collective. Creates what "direct_kernel" needs, if it was asked for or this plan may choose it: for runs that
  /// would send more than `above` bytes by mail, `copies` times up to `count` elements. Throws Unsupported if it was
  /// asked for and the device does not have it, InvalidArgument if on 0 SMs.
  void make_meeting(std::int64_t count, int copies, std::size_t above);
  /// Collective; after make_lanes and make_meeting. `bytes` per slot (none without staging) and `signals` kinds of
  /// signals between each pair of ranks; by mail, each message is written `copies` times, once per receiving peer.
  /// Throws Unsupported for algorithm "fetch" if ranks cannot read each other's memory, and for "mail" if the device
  /// does not support it.
  void make_slots(std::size_t bytes, std::uint32_t signals, int copies);
  /// Call before the first use of a slot in a run whose signals also serve as its credits. They can since slots
  /// alternate from run to run, but a graph has its slots baked in. So from the first captured run on, no run passes
  /// this point before all ranks have reached it.
  void open_slots(StreamRef stream) const {
    if (captured()) exchange(stream, opened_);
  }

  using PlanState::expect;
  void expect(const SymmetricTensor& tensor, std::string_view argument, std::int64_t elements) const;
  void expect(const TensorView& view, std::string_view argument, std::int64_t elements) const {
    if (options_.strided) {
      expect_rows(view, argument, elements);
    } else {
      PlanState::expect(view, argument, dtype_, elements);
    }
  }
  void expect_same_or_apart(const TensorView& view, std::string_view argument, const TensorView& other,
                            std::string_view other_argument) const {
    if (view.data() == other.data()) return expect_same_rows(view, argument, rows_of(other), other, other_argument);
    PlanState::expect_same_or_apart(view, argument, other, other_argument);
  }
  /// Throws unless `shard` is as large as this rank's shard of `whole`, and is that shard itself or outside `whole`.
  void expect_shard(const TensorView& shard, const TensorView& whole, std::string_view argument,
                    const Split& split) const;
  /// Throws InvalidArgument for a negative count, or one larger than any memory.
  void expect_count(std::int64_t count) const;
  /// Throws InvalidArgument if `count` exceeds `limit`, the plan's; `what` names it in the error.
  void expect_at_most(std::int64_t count, std::int64_t limit, std::string_view what) const;
  /// Throws InvalidArgument unless runs of this plan, which are of up to `limit` elements, may be of `count`.
  void expect_within(std::int64_t count, std::int64_t limit) const;
  /// Throws InvalidArgument if an explicit algorithm was asked for that is not in `fitting`; `given` names the tensors.
  void expect_algorithm(std::span<const std::string_view> fitting, std::string_view given) const {
    if (!automatic_) expect_asked(fitting, given);
  }
  /// Throws InvalidArgument for plain views where the plan has no staging memory for them.
  void expect_staging() const;
  /// Both, for runs that are told apart by one of their tensors: a plain view or a symmetric one.
  void expect_view(bool plain, std::span<const std::string_view> fitting) const {
    if (plain) expect_staging();
    expect_algorithm(fitting, plain ? "a plain view" : "a symmetric tensor");
  }
  /// Throws InvalidArgument if the explicit algorithm is one of these, which need staging, and the plan has none.
  void expect_staging_for(std::initializer_list<std::string_view> algorithms) const;
  /// Throws InvalidArgument for a dtype or options that sums do not take, Unsupported for more ranks than they take.
  void expect_sums() const;
  /// From now on `reduce` and `reduce_fetched` leave their sums in `wider`, if that is not the plan's dtype; the other
  /// ways to sum do not. Throws InvalidArgument unless the dtype can be widened to it, and for an algorithm that sums
  /// in another of these ways.
  void widen_sums(DType wider);
  /// From now on `reduce` leaves so many of the plan's SMs, if their number is limited, to other kernels of its runs,
  /// also in runs that have none beside their sums.
  void leave_sms_beside_sums(int sms) noexcept { left_sms_ = sms; }
  [[nodiscard]] bool widens() const noexcept { return sum_dtype_ != dtype_; }
  [[nodiscard]] DType sum_dtype() const noexcept { return sum_dtype_; }
  /// Bytes of the sums of `bytes` bytes of input.
  [[nodiscard]] std::size_t sum_bytes(std::size_t bytes) const noexcept {
    return bytes / element_bytes_ * size_of(sum_dtype_);
  }
  void expect_root(int root) const;

  /// The first call of a run whose parts are queued one by one; `name` is the run's in the trace.
  void begin_run(StreamRef stream, const char* name) {
    begin(stream);
    copies_.clear();  // of a run that threw
    running_ = name;
  }
  /// A run that is a single device operation.
  template <typename Body> void run_step(StreamRef stream, const char* name, const Body& body) {
    begin_run(stream, name);
    whole_or_failed([&] {
      body();
      end(stream);
    });
  }
  /// A run of several device operations, submitted together.
  template <typename Body> void run_steps(StreamRef stream, const char* name, const Body& body) {
    begin_run(stream, name);
    whole_or_failed([&] {
      {
        const Corked corked(device(), stream);
        body();
      }
      end(stream);
    });
  }
  /// A trace range for a part of the run.
  [[nodiscard]] TraceRange traced(StreamRef stream, TraceKind kind) const {
    return TraceRange(device(), stream, running_, kind);
  }
  /// Sends signal `what` to all peers.
  void signal_all(StreamRef stream, std::uint32_t what) const { slots_.signal(stream, 0, slots_.peers(), what); }
  /// Waits, in stream order, for signal `what` of these ranks.
  void wait(StreamRef stream, int slot, std::span<const int> ranks, std::uint32_t what) const {
    const TraceRange range = traced(stream, TraceKind::wait);
    slots_.wait(stream, slot, ranks, what);
  }
  /// Waits for signal `what` of all peers.
  void wait_all(StreamRef stream, std::uint32_t what) const { wait(stream, 0, slots_.peers(), what); }
  /// signal_all, then wait_all.
  void exchange(StreamRef stream, std::uint32_t what) const { exchange(stream, 0, what); }
  void exchange(StreamRef stream, int slot, std::uint32_t what) const {
    const TraceRange range = traced(stream, TraceKind::wait);
    slots_.exchange(stream, slot, what);
  }

  /// Slots::fetch, traced.
  void fetch_from(StreamRef stream, int lender, std::uint32_t arrival, std::size_t offset, void* to,
                  std::size_t bytes) const {
    const TraceRange range = traced(stream, TraceKind::communication);
    slots_.fetch(stream, lender, arrival, offset, to, bytes);
  }

  /// The copies that `flush` submits.
  [[nodiscard]] CopyBatch& copies() noexcept { return copies_; }
  /// Submits the batch as one device operation.
  void flush(StreamRef stream);
  /// `flush` by copy engines, where the device has them, even for a single copy.
  void flush_by_engines(StreamRef stream);
  /// Submits the batch to one kernel that synchronizes with the peers' kernels (see make_meeting). Called by all ranks;
  /// `most_bytes` is the longest copy of any of them. Without peers it is `flush`.
  void flush_in_meeting(StreamRef stream, std::size_t most_bytes);
  /// flush_in_meeting for copies that all have the same source, in this rank's own memory.
  void flush_spread_in_meeting(StreamRef stream, std::size_t most_bytes);
  /// Sends `message_for(peer)` to each peer and combines the messages of all ranks, including this rank's `own`, as
  /// `use` says; sources and dtype of `use` are filled in here. One device operation.
  template <typename MessageFor>
  void mail(StreamRef stream, const MessageFor& message_for, const void* own, MailUse use) {
    slots_.next_mail();
    for (const int peer : peers()) mailed_[static_cast<std::size_t>(peer)] = slots_.mailed(peer);
    mailed_[static_cast<std::size_t>(me_)] = own;
    use.sources = mailed_;
    use.dtype = dtype_;
    slots_.mail(stream, message_for, use);
  }
  /// `mail` that stores each rank's message at its own place: `place_for(rank)`, also for this rank.
  template <typename MessageFor, typename PlaceFor>
  void mail_into(StreamRef stream, const MessageFor& message_for, const void* own, const PlaceFor& place_for) {
    for (int rank = 0; rank < ranks_; ++rank) mail_places_[static_cast<std::size_t>(rank)] = place_for(rank);
    mail(stream, message_for, own, {.places = mail_places_});
  }
  /// Device::reduce of `count` elements; `remote` operands are in peers' memory, of which `to_peers` are destinations.
  /// No-op for a count of 0.
  void reduce(StreamRef stream, std::span<const void* const> sources, std::span<void* const> destinations,
              std::int64_t count, std::size_t remote, std::size_t to_peers = 0) const;

  /// Sums this rank's chunk of what all ranks lent with signal `arrival`, in rank order, into `out`; this rank lent
  /// `input`. The peers' parts of each block are fetched side by side into a slot, which must have room for the whole
  /// chunk, or for `part_bytes`, per peer.
  void reduce_fetched(StreamRef stream, std::uint32_t arrival, const std::byte* input, Shard chunk, std::byte* out);

  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] int me() const noexcept { return me_; }
  [[nodiscard]] std::size_t element_bytes() const noexcept { return element_bytes_; }
  [[nodiscard]] std::size_t bytes_of(std::int64_t count) const noexcept {
    return static_cast<std::size_t>(count) * element_bytes_;
  }
  [[nodiscard]] const CollectiveOptions& options() const noexcept { return options_; }
  /// The memory layout of a view.
  [[nodiscard]] Rows rows_of(const TensorView& view) const { return options_.strided ? Rows(view) : Rows(view.data()); }
  /// Whether the algorithm is "auto".
  [[nodiscard]] bool automatic() const noexcept { return automatic_; }
  /// Bytes of `count` elements, or `limit` if that is less.
  [[nodiscard]] std::size_t bytes_up_to(std::size_t limit, std::int64_t count) const noexcept {
    return static_cast<std::uint64_t>(count) > limit / element_bytes_ ? limit : bytes_of(count);
  }
  /// Bytes of one staged piece, a multiple of every element size.
  [[nodiscard]] std::size_t piece_bytes() const noexcept { return piece_bytes_; }
  /// Bytes of one piece where a slot holds a part for each rank.
  [[nodiscard]] std::size_t part_bytes() const noexcept { return part_bytes_; }
  /// A copy between ranks of fewer bytes than this costs less than the signal after it.
  [[nodiscard]] std::size_t batch_bytes() const noexcept { return batch_bytes_; }
  /// Whether a run into or out of symmetric tensors, with shards of at most `bytes` bytes, uses staging memory after
  /// all: that takes one exchange of signals instead of two.
  [[nodiscard]] bool takes_staging(std::size_t bytes) const noexcept;
  /// Whether a run with messages of `bytes` bytes goes by mail, whatever the tensors: in one step, but each message is
  /// written once per receiving peer.
  [[nodiscard]] bool takes_mail(std::size_t bytes) const noexcept {
    return automatic_ ? letter_bytes_ != 0 && bytes <= mail_bytes_ : options_.algorithm == "mail";
  }
  /// The bytes of each shard (or of the whole) that one kernel handles at once: up to `limit` with "auto", else pieces.
  [[nodiscard]] std::size_t one_kernel_bytes(std::size_t limit) const noexcept;
  /// Whether a run with shards of `bytes` bytes is run by one kernel, whatever the tensors. If that was asked for,
  /// longer shards go in pieces.
  [[nodiscard]] bool takes_one_kernel(std::size_t bytes) const noexcept;
  /// Whether that holds for every run of a plan for shards of up to `count` elements: then no staging memory is needed.
  [[nodiscard]] bool is_always_one_kernel(std::int64_t count) const noexcept {
    return lanes_.bytes() != 0 && takes_one_kernel(bytes_up_to(lanes_.bytes() + 1, count));
  }
  /// Whether a run on symmetric tensors uses "direct_kernel": if that `wins` or was asked for.
  [[nodiscard]] bool takes_direct_kernel(bool wins) const noexcept {
    return automatic_ ? meeting_ && wins : options_.algorithm == "direct_kernel";
  }
  /// All-gather or reduce-scatter in one kernel.
  void one_kernel(StreamRef stream, MailedForm form, const std::byte* input, std::byte* out, const Split& whole);
  /// Sends each rank its part and receives theirs, in as many mail steps as the longest part of any pair of ranks
  /// needs: `longest` elements. `parts` is indexed by rank.
  void mail_parts(StreamRef stream, std::span<const MailedPart> parts, std::int64_t longest);
  /// The same in kernels instead of mail steps.
  void one_kernel(StreamRef stream, std::span<const MailedPart> parts, std::int64_t longest);
  [[nodiscard]] const MailLanes& lanes() const noexcept { return lanes_; }
  [[nodiscard]] const MeetingPlace& meeting() const noexcept { return meeting_; }
  /// The most bytes of one letter.
  [[nodiscard]] std::size_t letter_bytes() const noexcept { return letter_bytes_; }
  /// What copies and what sums on this device, for `describe`.
  [[nodiscard]] std::string_view copier() const noexcept;
  [[nodiscard]] std::string summer() const;
  /// Whether a run between plain views, with shards of at most `bytes` bytes, reads the peers' views in place, in
  /// `rounds` rounds: one copy less, but the lender waits until all peers have read.
  [[nodiscard]] bool takes_fetch(std::size_t bytes, int rounds = 1) const noexcept;
  /// Why a run on such tensors is refused, for `describe`: an algorithm was requested that is none of the `fitting`
  /// ones; empty where it is not. Runs on plain views are refused without staging, too.
  [[nodiscard]] std::string why_refused(std::span<const std::string_view> fitting) const;
  [[nodiscard]] std::string why_plain_refused(std::span<const std::string_view> fitting) const;
  /// Completes `describe` once everything is made: which algorithm runs of up to `most` elements take, by tensors and
  /// size, what these do, and which `engine` moves or sums.
  void describe_algorithms(std::int64_t most, std::span<const AlgorithmRow> rows,
                           std::initializer_list<AlgorithmNote> notes, std::string_view engine);
  [[nodiscard]] Slots& slots() noexcept { return slots_; }
  [[nodiscard]] std::span<const int> peers() const noexcept { return slots_.peers(); }

 private:
  [[nodiscard]] std::string why_never_fetched() const;
  void expect_rows(const TensorView& view, std::string_view argument, std::int64_t elements) const;
  void expect_asked(std::span<const std::string_view> fitting, std::string_view given) const;
  /// Throws InvalidArgument for a strided view that begins at `place`, within `other`, but whose rows then diverge from
  /// those of `other`: it is neither in place nor disjoint.
  void expect_same_rows(const TensorView& view, std::string_view argument, const Rows& place, const TensorView& other,
                        std::string_view other_argument) const;

  DType dtype_;
  DType sum_dtype_;
  int left_sms_ = 0;
  CollectiveOptions options_;
  bool automatic_;
  int ranks_;
  int me_;
  std::size_t element_bytes_;
  std::size_t piece_bytes_;
  std::size_t part_bytes_;
  std::size_t batch_bytes_;
  std::size_t letter_bytes_ = 0;  // 0: this plan sends no mail
  std::size_t mail_bytes_ = 0;    // the longest message for which "auto" uses mail
  std::uint32_t opened_ = 0;      // the signal of `open_slots`
  Slots slots_;
  MailLanes lanes_;                       // empty if no run uses one kernel
  MeetingPlace meeting_;                  // empty if no run uses "direct_kernel"
  std::string why_no_fetch_;              // empty if plain views can be read where they are
  double loan_cost_ = 0;                  // see `loan_cost`
  CopyBatch copies_;                      // filled and emptied by each run
  std::vector<void*> places_;             // their destinations
  std::vector<const void*> mailed_;       // sources of one mail step, by rank
  std::vector<MailPlace> mail_places_;    // their destinations, by rank
  std::vector<MailedPart> kernel_parts_;  // the slice of the parts that one kernel handles
  const char* running_ = "";              // the run's name in the trace
};

}  // namespace tandem

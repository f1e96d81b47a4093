// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/dtype.hpp"
#include "tandem/base/export.hpp"
#include "tandem/collective/plan.hpp"
#include "tandem/collective/rows.hpp"
#include "tandem/collective/shard.hpp"
#include "tandem/device/copy.hpp"
#include "tandem/device/corked.hpp"
#include "tandem/device/mailed_exchange.hpp"
#include "tandem/device/trace_range.hpp"
#include "tandem/memory/mail_lanes.hpp"
#include "tandem/memory/meeting_place.hpp"
#include "tandem/memory/slots.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

namespace tandem {

/// How a collective is to run, instead of as it chooses. Equal on all ranks.
struct CollectiveOptions {
  std::string algorithm = "auto";  ///< "auto", or one of the plan's algorithms (its header lists them)
  /// Whether plain views will be given where peers write or read: those go through staging memory of the plan's own.
  /// Without it such tensors are symmetric ones, and plain only what a run itself copies from or into.
  bool staging = true;
  /// Of one piece on its way through staging memory, up to 2^48; 0: as measured best for the device.
  std::size_t piece_bytes = 0;
  /// CUDA: how many multiprocessors its kernels may take at most; nullopt: as measured best. Copies are left to copy
  /// engines then (where the stream takes no batch, see Device::copy_batch: all that go to another GPU). With 0 there
  /// are no kernels beside them but those of one block that signal and wait; sums need 1 at least. What runs beside a
  /// product finds them if that leaves them (GemmSpec::leave_sms, LinearOptions::leave_sms). No effect on the host.
  std::optional<int> sms{};
  /// Whether plain views may be given whose rows, of the first dimension, lie apart (each row dense). all_gather,
  /// all_to_all and broadcast alone take them, and move all by copies of rows then, with no kernel, mail or fetch.
  bool strided = false;
};

/// Which of a run's tensors are symmetric, as far as its plan's algorithms distinguish; both count as the output.
enum class Tensors : std::uint8_t { plain, symmetric_input, symmetric_output };

/// What the five collectives share. Each is a plan for runs of at most a count; a run's count (equal on all ranks) is
/// read from what it is given. Plain views are dense (but see CollectiveOptions::strided), of the plan's dtype, on the
/// team's device, and at any alignment of an element. That counts, roots and symmetric tensors are equal nobody checks
/// unless TANDEM_CHECK=runs asks for it: where they differ, results are wrong or the run ends at its deadline. A count
/// of 0 does nothing. Symmetric tensors are of the plan's team and have had their rendezvous.
///
/// Making one of the five throws InvalidArgument for a spec or options that no plan has (as an algorithm that needs
/// staging, without it), and Unsupported for an algorithm that the device or the system does not have, or not for so
/// many ranks, and for sums over more than 64 of them; and, while memory and peers are set up, OutOfMemory,
/// DeviceError, Timeout, PeerLost or Aborted.
///
/// Plain views are private to their process. On the host a peer may read them all the same, in one copy, where Linux
/// lets it (process_vm_readv(2): one user, and no Yama, seccomp or container between the ranks); a plan tries that when
/// it is made, and `describe` says what stands in the way. Memory that no process can read so (a device's registers)
/// makes the run fail with Aborted; algorithms but "fetch" take it.
///
/// A run's result is there once the stream has come past it. The caller may then also reuse the input; and may let
/// later work on the stream reuse what it gave, without waiting for anybody. So several plans may use one tensor, on
/// one stream or on streams that the caller has put in order. Plans and symmetric tensors may be let go of once a run
/// is queued (of a captured one, once its graph is launched no more, see Plan): it holds what it uses of them. Of a
/// plain view it has an address, whose memory has to last until the stream has come past the run.
class TANDEM_API Collective : public Plan {
 public:
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }

 protected:
  /// A run's tensor that is split over the ranks by rows of its first dimension (a 0-dim one is one row).
  struct Split {
    std::int64_t total = 0;  ///< elements of all ranks together
    std::int64_t full = 0;   ///< of a shard, but for the last ones

    /// In elements.
    [[nodiscard]] Shard shard(int rank) const noexcept {
      const std::int64_t begin = std::min(total, full * rank);
      return {begin, std::min(full, total - begin)};
    }
    /// "10 elements, 3 a rank".
    [[nodiscard]] std::string in_words() const;
  };
  [[nodiscard]] Split split(const TensorView& view) const;

  Collective(const Team& team, std::string kind, const std::string& what, DType dtype, const CollectiveOptions& options,
             std::span<const std::string_view> algorithms);
  ~Collective() = default;
  Collective(Collective&&) = default;
  Collective& operator=(Collective&&) = default;

  /// Collective. Mailboxes for runs in one kernel, of up to `bytes` of each shard: if this plan may choose such runs,
  /// or an algorithm was asked for that is one (its name begins so). Throws Unsupported for that where the device has
  /// none.
  void make_lanes(std::size_t bytes);
  /// Collective. What runs in one kernel on the peers' symmetric tensors need, if this plan may choose such runs (for
  /// more than `above` bytes; by mail it would send up to `count` elements so many times), or algorithm "direct_kernel"
  /// was asked for. Throws Unsupported for that where the device has none.
  void make_meeting(std::int64_t count, int copies, std::size_t above);
  /// Collective, behind make_lanes and make_meeting. `bytes` for each slot (none without staging), and `signals` kinds
  /// of signals between each two ranks; by mail, each message is written `copies` times, as often as there are peers
  /// who get it. Throws Unsupported for algorithm "fetch" where ranks cannot lend, and for "mail" where the device
  /// sends no letters.
  void make_slots(std::size_t bytes, std::uint32_t signals, int copies);
  /// Comes before the first use of a slot in a run whose signals are its credits. They are because slots alternate from
  /// run to run; a graph has its slots baked in. So from the first captured run on, no run gets beyond this before all
  /// ranks have come so far.
  void open_slots(StreamRef stream) const {
    if (captured()) exchange(stream, opened_);
  }

  using Plan::expect;
  void expect(const SymmetricTensor& tensor, std::string_view argument, std::int64_t elements) const;
  void expect(const TensorView& view, std::string_view argument, std::int64_t elements) const {
    if (options_.strided) {
      expect_rows(view, argument, elements);
    } else {
      Plan::expect(view, argument, dtype_, elements);
    }
  }
  void expect_same_or_apart(const TensorView& view, std::string_view argument, const TensorView& other,
                            std::string_view other_argument) const {
    if (view.data() == other.data()) return expect_same_rows(view, argument, rows_of(other), other, other_argument);
    Plan::expect_same_or_apart(view, argument, other, other_argument);
  }
  /// Refuses a shard that is not this rank's of `whole`, or lies in that but not in its place.
  void expect_shard(const TensorView& shard, const TensorView& whole, std::string_view argument,
                    const Split& split) const;
  /// Refuses a plan for a negative count, or for more than any memory has.
  void expect_count(std::int64_t count) const;
  /// Refuses a run of more than the plan was made for; `what` says of what.
  void expect_at_most(std::int64_t count, std::int64_t limit, std::string_view what) const;
  /// Refuses a run on `given` where an algorithm was asked for that is none of the `fitting` ones.
  void expect_algorithm(std::initializer_list<std::string_view> fitting, std::string_view given) const {
    if (!automatic_) expect_asked(fitting, given);
  }
  void expect_staging() const;
  /// Refuses the algorithm that was asked for if it is one of these, which plain views alone take, and those are not
  /// taken.
  void expect_staging_for(std::initializer_list<std::string_view> algorithms) const;
  void expect_sums() const;
  void expect_root(int root) const;

  void begin_run(StreamRef stream, const char* name) {
    begin(stream);
    copies_.clear();  // of a run that threw
    running_ = name;
  }
  /// A run of one step of the device.
  template <typename Body> void run_step(StreamRef stream, const char* name, const Body& body) {
    begin_run(stream, name);
    whole_or_failed([&] {
      body();
      end(stream);
    });
  }
  /// One of several, handed over together.
  template <typename Body> void run(StreamRef stream, const char* name, const Body& body) {
    begin_run(stream, name);
    whole_or_failed([&] {
      {
        const Corked corked(device(), stream);
        body();
      }
      end(stream);
    });
  }
  /// A part of the run, for the trace.
  [[nodiscard]] TraceRange traced(StreamRef stream, TraceKind kind) const {
    return TraceRange(device(), stream, running_, kind);
  }
  /// Tells all peers of `what`.
  void signal_all(StreamRef stream, std::uint32_t what) const { slots_.signal(stream, 0, slots_.peers(), what); }
  /// Waits until these ranks have told of `what`.
  void wait(StreamRef stream, int slot, std::span<const int> ranks, std::uint32_t what) const {
    const TraceRange range = traced(stream, TraceKind::wait);
    slots_.wait(stream, slot, ranks, what);
  }
  /// Waits until all peers have.
  void wait_all(StreamRef stream, std::uint32_t what) const { wait(stream, 0, slots_.peers(), what); }
  /// Both.
  void exchange(StreamRef stream, std::uint32_t what) const { exchange(stream, 0, what); }
  void exchange(StreamRef stream, int slot, std::uint32_t what) const {
    const TraceRange range = traced(stream, TraceKind::wait);
    slots_.exchange(stream, slot, what);
  }

  /// Slots::fetch.
  void fetch_from(StreamRef stream, int lender, std::uint32_t arrival, std::size_t offset, void* to,
                  std::size_t bytes) const {
    const TraceRange range = traced(stream, TraceKind::communication);
    slots_.fetch(stream, lender, arrival, offset, to, bytes);
  }

  /// Puts a copy on the list that `flush` hands to the device as one batch; one that goes on where the last one ended
  /// becomes part of it. Nothing for 0 bytes or one place. `part_of` as in Copy.
  void add_copy(void* to, const void* from, std::size_t bytes, Path path, std::size_t part_of = 0);
  /// The same from rows to rows.
  void add_copy(Rows to, Rows from, std::size_t bytes, Path path, std::size_t part_of = 0);
  void flush(StreamRef stream);
  /// The same by copy engines, where the device has them, also if it is only one.
  void flush_by_engines(StreamRef stream);
  /// Hands them to one kernel that meets the peers, for copies between ranks' own tensors (see make_meeting). All ranks
  /// do, the longest copy of any of them having `most_bytes`; without peers it is `flush`.
  void flush_in_meeting(StreamRef stream, std::size_t most_bytes);
  /// The same where all of them have one source, which is this rank's own.
  void flush_spread_in_meeting(StreamRef stream, std::size_t most_bytes);
  /// Sends each peer `message_for(peer)`, and makes of the messages of all ranks, this one's `own` among them, what
  /// `use` says beside its sources and dtype. One step of the device.
  template <typename MessageFor>
  void mail(StreamRef stream, const MessageFor& message_for, const void* own, MailUse use) {
    slots_.next_mail();
    for (const int peer : peers()) mailed_[static_cast<std::size_t>(peer)] = slots_.mailed(peer);
    mailed_[static_cast<std::size_t>(me_)] = own;
    use.sources = mailed_;
    use.dtype = dtype_;
    slots_.mail(stream, message_for, use);
  }
  /// The same, where each rank's message goes to a place of its own: `place_for(rank)`, of this one as well.
  template <typename MessageFor, typename PlaceFor>
  void mail_into(StreamRef stream, const MessageFor& message_for, const void* own, const PlaceFor& place_for) {
    for (int rank = 0; rank < ranks_; ++rank) mail_places_[static_cast<std::size_t>(rank)] = place_for(rank);
    mail(stream, message_for, own, {.places = mail_places_});
  }
  /// Device::reduce of `count` elements, of whose operands `remote` are peers' memory, destinations among them
  /// `to_peers`. Nothing for a count of 0.
  void reduce(StreamRef stream, std::span<const void* const> sources, std::span<void* const> destinations,
              std::int64_t count, std::size_t remote, std::size_t to_peers = 0) const;

  /// Sums what all ranks lent with `arrival`, at this rank's chunk of each, in rank order, into `out`; this rank lent
  /// `input`. The peers' parts of a block lie side by side in a slot: it has room for the whole chunk, or for
  /// `part_bytes`, of each peer.
  void reduce_fetched(StreamRef stream, std::uint32_t arrival, const std::byte* input, Shard chunk, std::byte* out);

  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] int me() const noexcept { return me_; }
  [[nodiscard]] std::size_t element_bytes() const noexcept { return element_bytes_; }
  [[nodiscard]] std::size_t bytes_of(std::int64_t count) const noexcept {
    return static_cast<std::size_t>(count) * element_bytes_;
  }
  [[nodiscard]] const CollectiveOptions& options() const noexcept { return options_; }
  /// Where a view's elements lie.
  [[nodiscard]] Rows rows_of(const TensorView& view) const { return options_.strided ? Rows(view) : Rows(view.data()); }
  /// Whether no algorithm was asked for.
  [[nodiscard]] bool automatic() const noexcept { return automatic_; }
  /// Bytes of `count` elements, or `limit` if that is less.
  [[nodiscard]] std::size_t bytes_up_to(std::size_t limit, std::int64_t count) const noexcept {
    return static_cast<std::uint64_t>(count) > limit / element_bytes_ ? limit : bytes_of(count);
  }
  /// Bytes of one piece, a multiple of every element's size.
  [[nodiscard]] std::size_t piece_bytes() const noexcept { return piece_bytes_; }
  /// The same, where a slot holds a part for each rank.
  [[nodiscard]] std::size_t part_bytes() const noexcept { return part_bytes_; }
  /// A copy between ranks of fewer bytes costs less than the signal behind it.
  [[nodiscard]] std::size_t batch_bytes() const noexcept { return batch_bytes_; }
  /// Whether a run into or out of symmetric tensors, of shards with at most so many bytes, goes through staging memory
  /// after all: that takes one exchange of signals instead of two.
  [[nodiscard]] bool takes_staging(std::size_t bytes) const noexcept;
  /// Whether a run of messages with so many bytes goes by mail, whatever the tensors: in one step, but each is written
  /// for every peer who gets it.
  [[nodiscard]] bool takes_mail(std::size_t bytes) const noexcept {
    return automatic_ ? letter_bytes_ != 0 && bytes <= mail_bytes_ : options_.algorithm == "mail";
  }
  /// Of each shard (or of a whole) that one kernel takes at once: up to `limit` where the plan chooses, else pieces.
  [[nodiscard]] std::size_t one_kernel_bytes(std::size_t limit) const noexcept;
  /// Whether a run of shards with so many bytes is one kernel's, whatever the tensors. One that was asked for takes
  /// longer ones, in pieces.
  [[nodiscard]] bool takes_one_kernel(std::size_t bytes) const noexcept;
  /// Whether every run of a plan for shards of up to `count` elements is: then it needs no staging memory.
  [[nodiscard]] bool is_always_one_kernel(std::int64_t count) const noexcept {
    return lanes_.bytes() != 0 && takes_one_kernel(bytes_up_to(lanes_.bytes() + 1, count));
  }
  /// Whether a run on symmetric tensors is a kernel's on all of them: if that `wins`, or was asked for.
  [[nodiscard]] bool takes_direct_kernel(bool wins) const noexcept {
    return automatic_ ? meeting_ && wins : options_.algorithm == "direct_kernel";
  }
  /// All-gather or reduce-scatter in one kernel.
  void one_kernel(StreamRef stream, MailedForm form, const std::byte* input, std::byte* out, const Split& whole);
  /// Sends each rank its part and gets theirs, in as many steps by mail, or kernels, as the longest part of all pairs
  /// of ranks takes: `longest` elements. `parts` are by rank.
  void mail_parts(StreamRef stream, std::span<const MailedPart> parts, std::int64_t longest);
  void one_kernel(StreamRef stream, std::span<const MailedPart> parts, std::int64_t longest);
  [[nodiscard]] const MailLanes& lanes() const noexcept { return lanes_; }
  [[nodiscard]] const MeetingPlace& meeting() const noexcept { return meeting_; }
  /// Of one letter at most.
  [[nodiscard]] std::size_t letter_bytes() const noexcept { return letter_bytes_; }
  /// What moves and what adds on this device, for `describe`.
  [[nodiscard]] std::string_view copier() const noexcept;
  [[nodiscard]] std::string summer() const;
  /// Whether a run between plain views, of shards with at most so many bytes, reads the peers' where they are, in so
  /// many rounds: one copy less, but who lends waits until all have read.
  [[nodiscard]] bool takes_fetch(std::size_t bytes, int rounds = 1) const noexcept;
  /// `how`, for `describe`; or that it does not go so at all, where an algorithm was asked for that is none of these.
  [[nodiscard]] std::string if_taken(std::initializer_list<std::string_view> by, std::string how) const;
  /// How plain views go, for `describe`; `staged` says how where they are not read in place.
  [[nodiscard]] std::string plain_views(const std::string& staged, int fetch_rounds = 1) const;
  /// ", and anything up to 4096 bytes a rank," behind "plain views", where that is so.
  [[nodiscard]] std::string small_too() const;
  /// How all goes, for `describe`: short messages by mail (see `takes_mail`), else as `otherwise` says.
  [[nodiscard]] std::string with_mail(const std::string& otherwise) const;
  /// The same, on the ranks' own tensors: by a kernel that `does` it, from so many bytes on up to `most` on a rank's
  /// links.
  [[nodiscard]] std::string with_direct_kernel(std::size_t most, std::string_view does,
                                               const std::string& otherwise) const;
  /// The same, for shards (or `what` they are) of up to `count` elements in one kernel.
  [[nodiscard]] std::string with_one_kernel(std::int64_t count, const std::string& otherwise,
                                            std::string_view what = "shards") const;
  [[nodiscard]] Slots& slots() noexcept { return slots_; }
  [[nodiscard]] std::span<const int> peers() const noexcept { return slots_.peers(); }

 private:
  void expect_rows(const TensorView& view, std::string_view argument, std::int64_t elements) const;
  void expect_asked(std::initializer_list<std::string_view> fitting, std::string_view given) const;
  /// Refuses a strided view that begins at `place`, which is in `other`, but goes on where that does not: it is neither
  /// in place nor apart.
  void expect_same_rows(const TensorView& view, std::string_view argument, const Rows& place, const TensorView& other,
                        std::string_view other_argument) const;

  DType dtype_;
  CollectiveOptions options_;
  bool automatic_;
  int ranks_;
  int me_;
  std::size_t element_bytes_;
  std::size_t piece_bytes_;
  std::size_t part_bytes_;
  std::size_t batch_bytes_;
  std::size_t letter_bytes_ = 0;  // 0: this plan sends none
  std::size_t mail_bytes_ = 0;    // of the longest message that goes by mail by itself
  std::uint32_t opened_ = 0;      // what ranks signal in `open_slots`
  Slots slots_;
  MailLanes lanes_;                       // none where no run is one kernel's
  MeetingPlace meeting_;                  // none where no run is one kernel's on the peers' own tensors
  std::string why_no_fetch_;              // empty if plain views can be read where they are
  double loan_cost_ = 0;                  // as `loan_cost` has it
  std::vector<Copy> copies_;              // filled and emptied by each run
  std::vector<void*> places_;             // that they go to
  std::vector<const void*> mailed_;       // where the messages of one step by mail lie, by rank
  std::vector<MailPlace> mail_places_;    // and where they go
  std::vector<MailedPart> kernel_parts_;  // what of the parts one kernel takes
  const char* running_ = "";              // what the trace calls the run
};

}  // namespace tandem

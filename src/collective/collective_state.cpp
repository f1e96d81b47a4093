// SPDX-License-Identifier: Apache-2.0
#include "collective/collective_state.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "base/checked.hpp"
#include "base/dtype_check.hpp"
#include "base/format.hpp"
#include "base/most_elements.hpp"
#include "collective/algorithm_table.hpp"
#include "collective/engines.hpp"
#include "collective/tuning.hpp"
#include "memory/private_memory.hpp"
#include "team/names.hpp"

namespace tandem {
namespace {

constexpr std::size_t piece_alignment = 256;  // keeps pieces of any dtype aligned for vector loads

// The most bytes at once by "one_kernel", if asked for: its mailboxes take twice as much for each peer.
constexpr std::size_t largest_mail = std::size_t{1} << 20;

// More than any memory has, and far enough below 2^64 that sums of several do not overflow.
constexpr std::size_t largest_piece = std::size_t{1} << 48;

std::string arguments_text(const std::string& what, const CollectiveOptions& options) {
  std::string text = format("{}, algorithm {}", what, options.algorithm);
  if (!options.staging) text += ", no staging";
  if (options.piece_bytes != 0) text += format(", pieces of {} bytes", options.piece_bytes);
  if (options.sms) text += format(", on at most {} SMs", *options.sms);
  if (options.strided) text += ", strided";
  return text;
}

std::string join(std::span<const std::string_view> names) {
  std::string text = "auto";
  for (const std::string_view name : names) text += format(", {}", name);
  return text;
}

}  // namespace

CollectiveState::CollectiveState(const Team& team, std::string kind, const std::string& what, DType dtype,
                                 const CollectiveOptions& options, std::span<const std::string_view> algorithms)
    : PlanState(team, std::move(kind), arguments_text(what, options)),
      dtype_(dtype),
      sum_dtype_(dtype),
      options_(options),
      automatic_(options.algorithm == "auto"),
      ranks_(team.size()),
      me_(team.rank()),
      element_bytes_(size_of(known_dtype(dtype))),
      piece_bytes_(round_up(
          options.piece_bytes != 0 ? options.piece_bytes : collective_tuning(team.device().id().type).piece_bytes,
          piece_alignment)),
      part_bytes_(std::max(piece_bytes_ / static_cast<std::size_t>(ranks_) / piece_alignment, std::size_t{1}) *
                  piece_alignment) {
  if (!automatic_ && std::ranges::find(algorithms, options.algorithm) == algorithms.end()) {
    refuse(format("algorithm '{}' is not known; known: {}", options.algorithm, join(algorithms)));
  }
  constexpr std::array<std::string_view, 3> copying{"push", "pull", "staged"};
  if (options.strided && !automatic_ && std::ranges::find(copying, options.algorithm) == copying.end()) {
    std::vector<std::string_view> taken;
    std::ranges::copy_if(copying, std::back_inserter(taken), [algorithms](std::string_view name) {
      return std::ranges::find(algorithms, name) != algorithms.end();
    });
    refuse(format("algorithm '{}' was asked for with strided views; those take: {}", options.algorithm, join(taken)));
  }
  expect_staging_for({"staged", "fetch", "mail", "one_kernel", "one_kernel_two_shot"});
  if (options.piece_bytes > largest_piece) {
    refuse(format("pieces of {} bytes were asked for; allowed: 0 to {}", options.piece_bytes, largest_piece));
  }
  if (options.sms.value_or(0) < 0) refuse(format("sms is {}; allowed: 0 or more", *options.sms));
  const CostTable costs = team.device().costs();
  batch_bytes_ = static_cast<std::size_t>(costs.link_latency_seconds * costs.link_bytes_per_second);
}

void CollectiveState::make_lanes(std::size_t bytes) {
  const std::string& algorithm = options_.algorithm;
  const bool asked = algorithm.starts_with("one_kernel");
  if (asked && options_.sms == 0) refuse(format("algorithm '{0}' was asked for on 0 SMs; {0} needs 1", algorithm));
  if (asked && !device().exchanges_mail()) {
    throw Unsupported(format("{} on {}: algorithm '{}' was asked for, and {} has no kernel for it", kind(),
                             name_own_rank(team()), algorithm, to_string(device().id())));
  }
  const bool few = static_cast<std::size_t>(ranks_) <= max_reduce_operands;
  if (asked && !few) {
    throw Unsupported(format("{} on {}: algorithm '{}' was asked for; it is for at most {} ranks", kind(),
                             name_own_rank(team()), algorithm, max_reduce_operands));
  }
  const bool chooses =
      automatic_ && options_.staging && options_.sms != 0 && !options_.strided && few && device().exchanges_mail();
  if (!(asked || chooses) || bytes == 0 || ranks_ == 1) return;
  lanes_ = MailLanes(team(), bytes, options_.sms.value_or(MailLanes::most_lanes), operation());
}

void CollectiveState::make_meeting(std::int64_t count, int copies, std::size_t above) {
  const bool asked = options_.algorithm == "direct_kernel";
  if (asked && options_.sms == 0) refuse("algorithm 'direct_kernel' was asked for on 0 SMs; direct_kernel needs 1");
  const bool can = device().meets() && static_cast<std::size_t>(ranks_) <= max_reduce_operands;
  if (asked && !can) {
    throw Unsupported(format("{} on {}: algorithm 'direct_kernel' was asked for; {}", kind(), name_own_rank(team()),
                             device().meets()
                                 ? format("{} has it for up to {} ranks", to_string(device().id()), max_reduce_operands)
                                 : format("{} does not have it, CUDA devices do", to_string(device().id()))));
  }
  const bool may = above != SIZE_MAX && bytes_up_to(above + 1, count) * static_cast<std::size_t>(copies) > above;
  const bool chooses = automatic_ && may && can && options_.sms != 0 && !options_.strided;
  if (!(asked || chooses) || ranks_ == 1) return;
  meeting_ = MeetingPlace(team(), options_.sms.value_or(MeetingPlace::most_blocks), operation());
}

void CollectiveState::make_slots(std::size_t bytes, std::uint32_t signals, int copies) {
  const bool mails = options_.algorithm == "mail";
  if (mails && !device().sends_letters()) {
    throw Unsupported(format("{} on {}: algorithm 'mail' was asked for, and {} sends no letters", kind(),
                             name_own_rank(team()), to_string(device().id())));
  }
  if (options_.staging && !options_.strided) {
    const CollectiveTuning& tuning = collective_tuning(device().id().type);
    letter_bytes_ = std::min(piece_bytes_, longest_letter(tuning, ranks_));
    mail_bytes_ = longest_letter(tuning, ranks_, copies);
  }
  const bool staging = options_.staging && ranks_ > 1;
  opened_ = signals;
  slots_ = Slots(team(), staging && !mails ? bytes : 0, signals + 1, operation(), staging ? letter_bytes_ : 0);
  Owners owners = slots_.owners();
  append(owners, lanes_.owners());
  append(owners, meeting_.owners());
  keep_in_graphs(std::move(owners));
  if (letter_bytes_ != 0) {
    mailed_.resize(static_cast<std::size_t>(ranks_));
    mail_places_.resize(mailed_.size());
  }
  if (options_.strided) {
    why_no_fetch_ = "strided ones are read by nobody else";
  } else if (options_.staging) {
    why_no_fetch_ = why_no_loans(team());
    loan_cost_ = loan_cost(team());
  } else {
    why_no_fetch_ = "plain views are not taken without staging";
  }
  if (options_.algorithm == "fetch" && !why_no_fetch_.empty()) {
    throw Unsupported(
        format("{} on {}: algorithm 'fetch' was asked for, and {}", kind(), name_own_rank(team()), why_no_fetch_));
  }
}

Split CollectiveState::split(const TensorView& view) const {
  return {view.numel(), longest_shard(view.sizes(), ranks_)};
}

void CollectiveState::expect(const SymmetricTensor& tensor, std::string_view argument, std::int64_t elements) const {
  expect_reachable(tensor, argument);
  if (tensor.dtype() != dtype_ || tensor.sizes().numel() != elements) {
    PlanState::expect(tensor.local(), argument, dtype_, elements);
  }
}

void CollectiveState::expect_rows(const TensorView& view, std::string_view argument, std::int64_t elements) const {
  if (!Rows::fits(view)) {
    refuse(
        format("{} has sizes {} with strides {}; each row must be dense, begin behind the one before, and lie below "
               "2^63 bytes",
               argument, to_string(view.sizes()), to_string(view.strides())));
  }
  PlanState::expect({view.data(), view.sizes(), view.dtype(), view.device()}, argument, dtype_, elements);
}

void CollectiveState::expect_same_rows(const TensorView& view, std::string_view argument, const Rows& place,
                                       const TensorView& other, std::string_view other_argument) const {
  if (!options_.strided || rows_of(view).go_on_like(place, view.bytes())) return;
  refuse(
      format("{} has sizes {} with strides {} and begins in a place of {}, sizes {} with strides {}; the rows that "
             "follow must lie alike, or apart",
             argument, to_string(view.sizes()), to_string(view.strides()), other_argument, to_string(other.sizes()),
             to_string(other.strides())));
}

void CollectiveState::expect_shard(const TensorView& shard, const TensorView& whole, std::string_view argument,
                                   const Split& split) const {
  const Shard mine = split.shard(me_);
  expect(shard, "shard", mine.count);
  const Rows place = rows_of(whole) + bytes_of(mine.begin);
  if (shard.data() == place.address()) return expect_same_rows(shard, "shard", place, whole, argument);
  if (lie_apart(shard.data(), bytes_of(mine.count), whole.data(), bytes_of(split.total))) return;
  expect_apart(shard, "shard", whole, argument);
}

void CollectiveState::expect_count(std::int64_t count) const {
  if (count < 0 || count > most_elements) refuse(format("a count of {}; allowed: 0 to {}", count, most_elements));
}

void CollectiveState::expect_at_most(std::int64_t count, std::int64_t limit, std::string_view what) const {
  if (count > limit) refuse(format("{} has {} elements; this plan is for at most {}", what, count, limit));
}

void CollectiveState::expect_within(std::int64_t count, std::int64_t limit) const {
  if (count < 0 || count > limit) {
    refuse(format("the algorithm for {} elements was asked for; this plan is for 0 to {}", count, limit));
  }
}

void CollectiveState::expect_asked(std::span<const std::string_view> fitting, std::string_view given) const {
  if (std::ranges::find(fitting, options_.algorithm) != fitting.end()) return;
  std::string names;
  for (const std::string_view name : fitting) names += format("{}'{}'", names.empty() ? "" : ", ", name);
  refuse(format("algorithm '{}' is not for {}; that takes {}", options_.algorithm, given, names));
}

void CollectiveState::expect_staging() const {
  if (!options_.staging) {
    refuse("a plain view was given; this plan was made without staging and takes symmetric tensors only");
  }
}

void CollectiveState::expect_staging_for(std::initializer_list<std::string_view> algorithms) const {
  if (options_.staging || std::ranges::find(algorithms, options_.algorithm) == algorithms.end()) return;
  refuse(format("algorithm '{0}' was asked for without staging; {0} needs it", options_.algorithm));
}

void CollectiveState::expect_sums() const {
  switch (dtype_) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f64:
    case DType::i32:
    case DType::i64: break;
    case DType::u8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      refuse(format("{} cannot be summed; dtypes that can: f32, f16, bf16, f64, i32, i64", name(dtype_)));
  }
  if (static_cast<std::size_t>(ranks_) > max_reduce_operands) {
    throw Unsupported(
        format("{} on {}: sums are over at most {} ranks", kind(), name_own_rank(team()), max_reduce_operands));
  }
  if (options_.sms == 0) refuse("sms is 0; sums need 1 at least");
  if (options_.strided) refuse("strided views were asked for; sums take dense ones");
}

void CollectiveState::widen_sums(DType wider) {
  if (wider == dtype_) return;
  const bool narrow = dtype_ == f16 || dtype_ == bf16;
  if (!narrow || wider != f32) {
    refuse(format("sums in {} were asked for with dtype {}; allowed: {}{}", name(wider), name(dtype_), name(dtype_),
                  narrow ? " and f32" : ""));
  }
  constexpr std::array<std::string_view, 4> widening{"direct", "staged", "fetch", "push"};
  if (!automatic_ && std::ranges::find(widening, options_.algorithm) == widening.end()) {
    refuse(format("algorithm '{}' was asked for with sums of {} in {}; those take: {}", options_.algorithm,
                  name(dtype_), name(wider), join(widening)));
  }
  sum_dtype_ = wider;
}

void CollectiveState::expect_root(int root) const {
  if (root < 0 || root >= ranks_) refuse(format("root {} was given; allowed: 0 to {}", root, ranks_ - 1));
}

std::string_view CollectiveState::copier() const noexcept { return copied_by(device(), options_.sms); }

std::string CollectiveState::summer() const { return summed_by(device(), options_.sms); }

bool CollectiveState::takes_staging(std::size_t bytes) const noexcept {
  return automatic_ && options_.staging && staged_wins(collective_tuning(device().id().type), bytes);
}

std::size_t CollectiveState::one_kernel_bytes(std::size_t limit) const noexcept {
  if (automatic_) return options_.piece_bytes == 0 ? limit : std::min(piece_bytes_, limit);
  return std::min(piece_bytes_, largest_mail);
}

bool CollectiveState::takes_one_kernel(std::size_t bytes) const noexcept {
  if (!automatic_) return options_.algorithm == "one_kernel";
  return lanes_.bytes() != 0 && bytes <= lanes_.bytes();
}

void CollectiveState::one_kernel(StreamRef stream, MailedForm form, const std::byte* input, std::byte* out,
                                 const Split& whole) {
  const std::int64_t shard = whole.full;
  if (ranks_ == 1) {
    copies_.add(out, input, bytes_of(shard), Path::local);
    flush(stream);
    return;
  }
  const auto piece = static_cast<std::int64_t>(lanes_.bytes() / element_bytes_);
  for (std::int64_t begin = 0; begin < shard; begin += piece) {
    const TraceRange range = traced(stream, TraceKind::exchange);
    lanes_.exchange(stream, {.form = form,
                             .input = input + bytes_of(begin),
                             .out = out + bytes_of(begin),
                             .count = whole.total - begin,
                             .shard = shard,
                             .length = std::min(piece, shard - begin),
                             .dtype = dtype_});
  }
}

namespace {

/// The elements [begin, begin + longest) of a part, as far as they exist.
MailedPart cut(const MailedPart& part, std::int64_t begin, std::int64_t longest, std::size_t element) {
  const auto left = [&](std::int64_t count) { return std::clamp(count - begin, std::int64_t{0}, longest); };
  const std::size_t at = static_cast<std::size_t>(begin) * element;
  MailedPart piece{.sent = left(part.sent), .received = left(part.received)};
  if (piece.sent != 0) piece.from = static_cast<const std::byte*>(part.from) + at;
  if (piece.received != 0) piece.to = static_cast<std::byte*>(part.to) + at;
  return piece;
}

}  // namespace

void CollectiveState::mail_parts(StreamRef stream, std::span<const MailedPart> parts, std::int64_t longest) {
  const TraceRange range = traced(stream, TraceKind::communication);
  const auto letter = static_cast<std::int64_t>(letter_bytes_ / element_bytes_);
  for (std::int64_t begin = 0; begin < longest; begin += letter) {
    const auto piece = [&](int rank) {
      return cut(parts[static_cast<std::size_t>(rank)], begin, letter, element_bytes_);
    };
    mail_into(
        stream,
        [&](int peer) {
          const MailedPart part = piece(peer);
          return Slots::Message{part.from, bytes_of(part.sent)};
        },
        piece(me_).from,
        [&](int rank) {
          const MailedPart part = piece(rank);
          return MailPlace{part.to, bytes_of(part.received)};
        });
  }
}

void CollectiveState::one_kernel(StreamRef stream, std::span<const MailedPart> parts, std::int64_t longest) {
  if (ranks_ == 1) {
    copies_.add(parts[0].to, parts[0].from, bytes_of(parts[0].sent), Path::local);
    flush(stream);
    return;
  }
  const auto most = static_cast<std::int64_t>(lanes_.bytes() / element_bytes_);
  for (std::int64_t begin = 0; begin < longest; begin += most) {
    kernel_parts_.clear();
    for (const MailedPart& part : parts) kernel_parts_.push_back(cut(part, begin, most, element_bytes_));
    const TraceRange range = traced(stream, TraceKind::exchange);
    lanes_.exchange(stream, {.form = MailedForm::parts,
                             .length = std::min(most, longest - begin),
                             .parts = kernel_parts_,
                             .dtype = dtype_});
  }
}

bool CollectiveState::takes_fetch(std::size_t bytes, int rounds) const noexcept {
  if (!automatic_) return options_.algorithm == "fetch";
  return why_no_fetch_.empty() &&
         bytes >= fetched_from(collective_tuning(device().id().type), ranks_, rounds, loan_cost_);
}

std::string CollectiveState::why_refused(std::span<const std::string_view> fitting) const {
  if (automatic_ || std::ranges::find(fitting, options_.algorithm) != fitting.end()) return "";
  return format("not taken by algorithm {}", options_.algorithm);
}

std::string CollectiveState::why_plain_refused(std::span<const std::string_view> fitting) const {
  return options_.staging ? why_refused(fitting) : "not taken without staging";
}

std::string CollectiveState::why_never_fetched() const {
  if (!automatic_ || !options_.staging) return "";
  if (fetched_from(collective_tuning(device().id().type), ranks_, 1, loan_cost_) != SIZE_MAX) return why_no_fetch_;
  if (loan_cost_ == 0) return "";  // this kind of device never reads peers' plain views
  return format("a read of a peer's memory takes as long as {:.1f} copies", loan_cost_);
}

void CollectiveState::describe_algorithms(std::int64_t most, std::span<const AlgorithmRow> rows,
                                          std::initializer_list<AlgorithmNote> notes, std::string_view engine) {
  std::vector<AlgorithmNote> all(notes);
  all.push_back({"fetch", "plain views are read by their peers, in one copy"});
  all.push_back({"mail", format("data and signal in one step, in letters of up to {} bytes", letter_bytes_)});
  all.push_back(
      {"one_kernel", format("one kernel on each rank, through mailboxes of {} bytes a rank", lanes_.bytes())});
  const std::string never_fetched = why_never_fetched();
  const bool ignores_sms = options_.sms && device().id().type == DeviceType::host;
  set_description(format("{}{}{}{}\n{}{}", describe(), algorithm_table(rows, all, most, element_bytes_),
                         never_fetched.empty() ? "" : "\nno fetch: ", never_fetched, engine,
                         ignores_sms ? "\nsms: no effect on the host" : ""));
}

void CollectiveState::flush(StreamRef stream) {
  if (copies_.empty()) return;
  const TraceRange range = traced(stream, TraceKind::communication);
  enqueue(device(), stream, copies_.copies(), options_.sms);
  copies_.clear();
}

void CollectiveState::flush_by_engines(StreamRef stream) {
  if (copies_.empty()) return;
  const TraceRange range = traced(stream, TraceKind::communication);
  device().copy_batch(stream, copies_.copies());
  copies_.clear();
}

void CollectiveState::flush_in_meeting(StreamRef stream, std::size_t most_bytes) {
  if (!meeting_) return flush(stream);
  const TraceRange range = traced(stream, TraceKind::exchange);
  meeting_.copy(stream, copies_.copies(), most_bytes);
  copies_.clear();
}

void CollectiveState::flush_spread_in_meeting(StreamRef stream, std::size_t most_bytes) {
  if (!meeting_) return flush(stream);
  places_.clear();
  for (const Copy& copy : copies_.copies()) places_.push_back(copy.dst);
  const Copy one = copies_.empty() ? Copy{} : copies_.copies().front();
  const TraceRange range = traced(stream, TraceKind::exchange);
  meeting_.spread(stream, {.source = one.src, .destinations = places_, .bytes = one.bytes}, most_bytes);
  copies_.clear();
}

void CollectiveState::reduce(StreamRef stream, std::span<const void* const> sources,
                             std::span<void* const> destinations, std::int64_t count, std::size_t remote,
                             std::size_t to_peers) const {
  if (count == 0) return;
  const TraceRange range = traced(stream, TraceKind::exchange);
  device().reduce(stream, {.sources = sources,
                           .destinations = destinations,
                           .count = count,
                           .dtype = dtype_,
                           .out_dtype = sum_dtype_,
                           .peer_destinations = static_cast<int>(to_peers),
                           .most_blocks = options_.sms ? *options_.sms - left_sms_ : 0,
                           .link_bytes = remote * bytes_of(count)});
}

void CollectiveState::reduce_fetched(StreamRef stream, std::uint32_t arrival, const std::byte* input, Shard chunk,
                                     std::byte* out) {
  const std::size_t at = bytes_of(chunk.begin);
  const std::size_t bytes = bytes_of(chunk.count);
  const std::size_t part = std::min(part_bytes_, bytes);
  std::array<const void*, max_reduce_operands> sources{};
  for (std::size_t begin = 0; begin < bytes; begin += part) {
    const std::size_t block = std::min(part, bytes - begin);
    // No peer still reads this rank's slot: each has sent a signal since its last read of it.
    std::byte* panel = slots_.local(0);
    for (const int peer : peers()) {
      fetch_from(stream, peer, arrival, at + begin, panel, block);
      sources[static_cast<std::size_t>(peer)] = panel;
      panel += part;
    }
    sources[static_cast<std::size_t>(me_)] = input + at + begin;
    void* const to = out + sum_bytes(begin);
    reduce(stream, std::span(sources).first(static_cast<std::size_t>(ranks_)), std::span(&to, 1),
           static_cast<std::int64_t>(block / element_bytes_), 0);
  }
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "linear/partial_sums.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "tandem/device/trace_range.hpp"
#include "tandem/linear/tuned_product.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "collective/engines.hpp"
#include "collective/tuning.hpp"
#include "linear/algorithms.hpp"
#include "linear/groups.hpp"
#include "linear/local_gemm.hpp"
#include "linear/plan_buffer.hpp"

namespace tandem {
namespace {

constexpr std::size_t region_alignment = 256;

/// alpha · x · Wᵀ for some rows: beta applies only to the own rows, bias and activation only to the sum. A team of one
/// has no sum, so its GEMM includes everything.
GemmSpec partial_product(const LinearSpec& spec, int ranks) {
  GemmSpec gemm = local_gemm(spec);
  if (ranks == 1) return gemm;
  gemm.bias = false;
  gemm.activation = Activation::none;
  return gemm;
}

/// The GEMM of the own rows if it adds what was sent and differs from the other GEMMs; else null.
std::shared_ptr<Gemm> adding_gemm(const Team& team, const LinearSpec& spec, int leave_sms, bool adds) {
  if (!adds || !spec.bias) return nullptr;
  return tuned_gemm(team, leaving(leave_sms, local_gemm(spec)));
}

/// Whether every rank sums all `whole` bytes, in one step; otherwise each sums its chunk first, in two.
bool takes_one_step(const Team& team, std::size_t whole) {
  return whole <= one_step_up_to(collective_tuning(team.device().id().type), team.size());
}

std::size_t bytes_of(const LinearSpec& spec, std::int64_t m) {
  return checked_mul(static_cast<std::size_t>(m), static_cast<std::size_t>(spec.n) * size_of(spec.dtype));
}

/// Whether what follows the GEMM is large enough for kernels that work on all ranks' results, whatever y is.
bool meets_always(const Team& team, const LinearSpec& spec, PartialSums::Rows rows) {
  const std::size_t whole = bytes_of(spec, spec.m);
  const std::size_t sent =
      rows == PartialSums::Rows::all ? whole : whole - whole / static_cast<std::size_t>(team.size());
  return sent > collective_tuning(team.device().id().type).direct_above_bytes;
}

/// Whether it is large enough for them if y is symmetric.
bool meets_into_symmetric(const Team& team, PartialSums::Rows rows, std::size_t whole) {
  return rows == PartialSums::Rows::all && team.size() > 2 &&
         whole > direct_all_reduce_above(collective_tuning(team.device().id().type), team.size());
}

/// Mailboxes for what follows the GEMM, if one small kernel does it.
MailLanes lanes_of(const Team& team, const LinearSpec& spec, const LinearChoice& choice, PartialSums::Rows rows,
                   std::uint32_t operation) {
  const OneKernelLimit limit = one_kernel_limit(team.device(), team.size());
  const std::size_t whole = bytes_of(spec, spec.m);
  const std::size_t shard = bytes_of(spec, shard_of(spec.m, team.size(), 0).count);
  const bool fits = rows == PartialSums::Rows::all ? whole <= limit.whole : shard <= limit.shard;
  if (choice.algorithm != sequence || !fits || whole == 0) return {};
  std::size_t longest = shard;
  if (rows == PartialSums::Rows::all) {
    // A run of fewer tokens may take one step where the largest takes two.
    const std::size_t one_step = one_step_up_to(collective_tuning(team.device().id().type), team.size());
    longest = std::max(kernel_chunk(whole, team.size()), std::min(whole, one_step));
  }
  return {team, longest, choice.sms.value_or(MailLanes::most_lanes), operation};
}

/// Memory for what follows the GEMM, if kernels that work on all ranks' results do it.
MeetingPlace meeting_of(const Team& team, const LinearSpec& spec, const LinearChoice& choice, PartialSums::Rows rows,
                        std::uint32_t operation) {
  const std::size_t whole = bytes_of(spec, spec.m);
  const bool may = team.device().meets() && team.size() > 1 && kernel_takes_rows(team.size(), bytes_of(spec, 1));
  const bool wins = meets_always(team, spec, rows) || meets_into_symmetric(team, rows, whole);
  if (choice.algorithm != sequence || !may || !wins) return {};
  return {team, choice.sms.value_or(MeetingPlace::most_blocks), operation, whole};
}

}  // namespace

PartialSums::PartialSums(const Team& team, const LinearSpec& spec, const LinearChoice& choice, Rows rows,
                         std::vector<ShardPart> its_rounds, std::uint32_t operation)
    : team_(team),
      spec_(spec),
      row_bytes_(static_cast<std::size_t>(spec.n) * size_of(spec.dtype)),
      region_bytes_(checked_round_up(
          checked_mul(static_cast<std::size_t>(shard_of(spec.m, team.size(), 0).count), row_bytes_), region_alignment)),
      tail_offset_(checked_mul(region_bytes_, static_cast<std::size_t>(team.size()))),
      rows_(rows),
      rounds_(std::move(its_rounds)),
      sms_(choice.sms),
      copies_(choice.algorithm != direct),
      meeting_(meeting_of(team, spec, choice, rows, operation)),
      lanes_(meeting_ && meets_always(team, spec, rows) ? MailLanes() : lanes_of(team, spec, choice, rows, operation)),
      slots_(team, takes_kernels() || team.size() == 1 ? 0 : checked_add(tail_offset_, has_tail() ? region_bytes_ : 0),
             1 + rounds(), operation),
      staging_(team, plan_buffer(team, choice.algorithm == direct || meeting_ || team.size() == 1
                                           ? 0
                                           : checked_mul(static_cast<std::size_t>(spec.m), row_bytes_))),
      gemm_(team, tuned_gemm(team, leaving(choice.leave_sms, partial_product(spec, team.size())))),
      product_adds_(own_product_adds(spec, team.size(), static_cast<int>(rounds()))),
      adding_gemm_(team, adding_gemm(team, spec, choice.leave_sms, product_adds_)) {}

Owners PartialSums::owners() const {
  Owners owners = slots_.owners();
  append(owners, meeting_.owners());
  append(owners, lanes_.owners());
  owners.push_back(staging_.shared());
  owners.push_back(gemm_.shared());
  if (adding_gemm_) owners.push_back(adding_gemm_.shared());
  return owners;
}

std::string PartialSums::communication() const {
  if (slots_.peers().empty()) return "none";
  if (!takes_kernels()) {
    return format("{}; {}", copies_ ? format("pushes by {}", copied_by(team_.device(), sms_)) : "the products' stores",
                  product_adds_ ? "the product of the own rows adds what the peer has sent"
                                : format("sums by {}", summed_by(team_.device(), sms_)));
  }
  const bool mails = lanes_.bytes() != 0;
  const bool two = !mails && rows_ == Rows::all && !adds_up_all();
  const bool one_into_all = meeting_ && meets_into_symmetric(team_, rows_, bytes_of(spec_, spec_.m));
  return format("{} on at most {} SMs{}", two ? "two kernels" : "one kernel",
                mails ? lanes_.lanes() : static_cast<std::size_t>(meeting_.blocks()),
                one_into_all ? format(", into a symmetric y one on at most {} that stores into those of all ranks",
                                      meeting_.blocks())
                             : "");
}

void PartialSums::multiply(Gemm& gemm, Weights& weights, const Operands& run, Shard rows, GemmOperands into,
                           StreamRef stream) {
  if (rows.count == 0) return;
  const bool transposed = spec_.x_layout == Layout::transposed;
  const std::int64_t first = transposed ? rows.begin : rows.begin * spec_.k;
  into.a = run.x + static_cast<std::size_t>(first) * size_of(spec_.dtype);
  into.b = run.weight;
  into.m = rows.count;
  into.lda = transposed ? run.m : 0;
  into.weights = weights;
  const TraceRange range(team_.device(), stream, "GEMM", TraceKind::compute);
  gemm.run(stream, into);
  if (weights == Weights::first) weights = Weights::again;
}

void PartialSums::multiply_staged(const Operands& run, Shard rows, StreamRef stream) {
  multiply(run, rows, 0.0F, staged(rows.begin), stream);
}

std::size_t PartialSums::bytes_before(const Operands& run, int owner, const Shard& rows) const {
  return static_cast<std::size_t>(rows.begin - shard_of(run.m, team_.size(), owner).begin) * row_bytes_;
}

void PartialSums::multiply_own(const Operands& run, const ShardPart& part, std::byte* sums, StreamRef stream) {
  own_ = sums;
  const Shard rows = own_rows(run.m, part);
  const std::size_t before = bytes_before(run, team_.rank(), rows);
  if (spec_.beta != 0.0F && rows.count > 0) {
    const Copy copy{
        .dst = sums + before, .src = run.y + before, .bytes = static_cast<std::size_t>(rows.count) * row_bytes_};
    enqueue(team_.device(), stream, std::span(&copy, 1), sms_);
  }
  multiply(run, rows, spec_.beta, sums + before, stream);
}

void PartialSums::push(const Operands& run, const ShardPart& part, bool last, std::uint32_t round,
                       StreamRef stream) const {
  const TraceRange range(team_.device(), stream, "push partial sums", TraceKind::communication);
  const int& owner = slots_.peers()[static_cast<std::size_t>(part.shard)];
  const Shard rows = part_rows(run.m, team_.size(), owner, part);
  team_.device().copy(stream, {.dst = region(owner, team_.rank()) + bytes_before(run, owner, rows),
                               .src = staged(rows.begin),
                               .bytes = static_cast<std::size_t>(rows.count) * row_bytes_,
                               .path = Path::link});
  if (last) slots_.signal_counted(stream, slot_, std::span(&owner, 1), in_region(round));
}

void PartialSums::take_slot(StreamRef stream) {
  slot_ = slots_.next();
  // Before all GEMMs (see ShardGather::take_slot).
  slots_.take_and_count(stream, slot_, slots_.peers(), in_region(0), rounds());
  weights_ = slots_.peers().empty() ? Weights::once : Weights::first;
  adding_weights_ = Weights::first;
}

void PartialSums::multiply_alone(const Operands& run, StreamRef stream) {
  weights_ = Weights::once;
  multiply(*gemm_, weights_, run, {0, run.m}, {.d = run.y, .bias = run.bias, .beta = spec_.beta}, stream);
}

void PartialSums::multiply_overlapped(const Operands& run, std::span<const ShardGroup> groups, StreamRef stream,
                                      CommunicationStreams& communication) {
  take_slot(stream);
  const auto multiply_group = [&](const ShardGroup& group) {
    for (const Shard rows : group_rows(run.m, team_.size(), slots_.peers(), group)) {
      multiply_staged(run, rows, stream);
    }
    communication.follow(stream);
  };
  const auto push_group = [&](const ShardGroup& group) {
    // One signal for all parts of a shard: earlier pushes on this stream arrive before it.
    for (const ShardPart& part : group) {
      push(run, part, part.ends_shard(), 0, communication[part.shard].ref());
    }
  };
  for (const ShardGroup& group : groups.first(groups.size() - 1)) {
    multiply_group(group);
    push_group(group);
  }
  multiply_group(groups.back());
  // Before the last pushes, which do not need it: in a graph the sum then starts sooner behind this GEMM, and eager it
  // makes no difference (docs/linear_schedules.md).
  multiply_own(run, 0, stream);
  push_group(groups.back());
}

void PartialSums::multiply_peers(const Operands& run, std::uint32_t round, StreamRef stream,
                                 CommunicationStreams& communication) {
  ShardPart part = rounds_[round];
  for (part.shard = 0; part.shard < std::ssize(slots_.peers()); ++part.shard) {
    const int owner = slots_.peers()[static_cast<std::size_t>(part.shard)];
    multiply_staged(run, part_rows(run.m, team_.size(), owner, part), stream);
    communication[part.shard].follow(stream);
    push(run, part, true, round, communication[part.shard].ref());
  }
}

void PartialSums::multiply_adding(const Operands& run, std::uint32_t round, StreamRef stream) {
  wait_for_parts(round, stream);
  const Shard rows = own_rows(run.m, rounds_[round]);
  const std::size_t before = bytes_before(run, team_.rank(), rows);
  const GemmOperands into{.d = (has_tail() ? tail(team_.rank()) : run.y) + before,
                          .c = region(team_.rank(), slots_.peers().front()) + before,
                          .bias = run.bias,
                          .beta = 1.0F};
  if (adding_gemm_) {
    multiply(*adding_gemm_, adding_weights_, run, rows, into, stream);
  } else {
    multiply(*gemm_, weights_, run, rows, into, stream);
  }
}

void PartialSums::multiply_first(const Operands& run, StreamRef stream) {
  if (!takes_kernels()) slot_ = slots_.next();
  weights_ = spec_.beta == 0.0F ? Weights::once : Weights::first;
  const ShardGroup all = whole_shards(0, team_.size() - 1);
  if (spec_.beta == 0.0F) {
    multiply_staged(run, {0, run.m}, stream);
    own_ = staged(shard_of(run.m, team_.size(), team_.rank()).begin);
  } else {
    for (const Shard rows : group_rows(run.m, team_.size(), slots_.peers(), all)) multiply_staged(run, rows, stream);
    const Shard own = shard_of(run.m, team_.size(), team_.rank());
    multiply_own(run, whole_shard, takes_kernels() ? staged(own.begin) : region(team_.rank(), team_.rank()), stream);
  }
}

void PartialSums::push_all(const Operands& run, StreamRef stream) const {
  const TraceRange range(team_.device(), stream, "push partial sums", TraceKind::communication);
  std::vector<Copy> pushes;
  for (const int owner : slots_.peers()) {
    const Shard rows = shard_of(run.m, team_.size(), owner);
    pushes.push_back({.dst = region(owner, team_.rank()),
                      .src = staged(rows.begin),
                      .bytes = static_cast<std::size_t>(rows.count) * row_bytes_,
                      .path = Path::link});
  }
  slots_.take(stream, slot_, slots_.peers());
  team_.device().copy_batch(stream, pushes);
}

void PartialSums::in_sequence(const Operands& run, StreamRef stream) {
  multiply_first(run, stream);
  if (stores_into_all(run)) return reduce_into_all(run, stream);
  if (lanes_.bytes() != 0) return reduce_by_mail(run, stream);
  if (meeting_) return reduce_in_meeting(run, stream);
  push_all(run, stream);
  {
    const TraceRange range(team_.device(), stream, "wait for partial sums", TraceKind::wait);
    slots_.exchange(stream, slot_, in_region(0));
  }
  add(run, whole_shard, stream);
}

// A GEMM's stores cross the link while it runs: an emulated link is occupied from the GEMM's start by all rows but the
// last, which crosses when the GEMM has ended.
void PartialSums::multiply_direct(const Operands& run, StreamRef stream, CommunicationStreams& streams) {
  SideStream& communication = streams[0];
  take_slot(stream);
  communication.follow(stream);
  for (const int& peer : slots_.peers()) {
    const Shard rows = shard_of(run.m, team_.size(), peer);
    const std::size_t last_row = rows.count > 0 ? row_bytes_ : 0;
    {
      const TraceRange range(team_.device(), communication.ref(), "partial sums cross", TraceKind::communication);
      team_.device().cross_link(communication.ref(), static_cast<std::size_t>(rows.count) * row_bytes_ - last_row);
    }
    multiply(run, rows, 0.0F, region(peer, team_.rank()), stream);
    communication.follow(stream);
    team_.device().cross_link(communication.ref(), last_row);
    slots_.signal_counted(communication.ref(), slot_, std::span(&peer, 1), in_region(0));
  }
  multiply_own(run, 0, stream);
}

Reduction PartialSums::sum_of(const Operands& run, std::span<const void* const> sources,
                              std::span<void* const> destinations, std::int64_t rows) const {
  return {.sources = sources,
          .destinations = destinations,
          .count = rows * spec_.n,
          .dtype = spec_.dtype,
          .out_dtype = spec_.dtype,
          .bias = run.bias,
          .columns = spec_.n,
          .activation = spec_.activation,
          .most_blocks = sms_.value_or(0)};
}

void PartialSums::reduce_in_meeting(const Operands& run, StreamRef stream) const {
  if (run.m == 0) return;
  const Shard own = shard_of(run.m, team_.size(), team_.rank());
  const bool all = adds_up_all();
  const Shard rows = all ? Shard{0, run.m} : own;
  std::vector<const void*> sources;
  for (int rank = 0; rank < team_.size(); ++rank) {
    sources.push_back(meeting_.memory(rank) + static_cast<std::size_t>(rows.begin) * row_bytes_);
  }
  std::vector<void*> destinations{all ? all_rows(run) : run.y};
  const bool spreads = rows_ == Rows::all && !all;
  if (spreads) destinations.push_back(staged(own.begin));
  {
    const TraceRange range(team_.device(), stream, "exchange partial sums", TraceKind::exchange);
    const std::int64_t most = all ? run.m : shard_of(run.m, team_.size(), 0).count;
    meeting_.reduce(stream, sum_of(run, sources, destinations, rows.count),
                    static_cast<std::size_t>(most) * row_bytes_);
  }
  if (spreads) take_sums_in_meeting(run, stream);
}

bool PartialSums::stores_into_all(const Operands& run) const {
  return meeting_ && run.symmetric != nullptr &&
         meets_into_symmetric(team_, rows_, static_cast<std::size_t>(run.m) * row_bytes_);
}

void PartialSums::reduce_into_all(const Operands& run, StreamRef stream) const {
  const Shard own = shard_of(run.m, team_.size(), team_.rank());
  const std::size_t before = static_cast<std::size_t>(own.begin) * row_bytes_;
  std::vector<const void*> sources;
  std::vector<void*> destinations;
  for (int rank = 0; rank < team_.size(); ++rank) {
    sources.push_back(meeting_.memory(rank) + before);
    destinations.push_back(run.symmetric->remote(rank) + before);
  }
  Reduction sum = sum_of(run, sources, destinations, own.count);
  sum.peer_destinations = team_.size() - 1;
  const TraceRange range(team_.device(), stream, "exchange partial sums", TraceKind::exchange);
  meeting_.reduce(stream, sum, static_cast<std::size_t>(shard_of(run.m, team_.size(), 0).count) * row_bytes_);
}

void PartialSums::take_sums_in_meeting(const Operands& run, StreamRef stream) const {
  const TraceRange range(team_.device(), stream, "take sums", TraceKind::exchange);
  std::vector<Copy> copies;
  for (const int peer : slots_.peers()) {
    const Shard rows = shard_of(run.m, team_.size(), peer);
    const std::size_t before = static_cast<std::size_t>(rows.begin) * row_bytes_;
    copies.push_back({.dst = all_rows(run) + before,
                      .src = meeting_.memory(peer) + before,
                      .bytes = static_cast<std::size_t>(rows.count) * row_bytes_,
                      .path = Path::link});
  }
  meeting_.copy(stream, copies, static_cast<std::size_t>(shard_of(run.m, team_.size(), 0).count) * row_bytes_);
}

void PartialSums::reduce_by_mail(const Operands& run, StreamRef stream) const {
  if (run.m == 0) return;
  const std::int64_t count = run.m * spec_.n;
  MailedExchange exchange{.form = MailedForm::reduce_scatter,
                          .input = staged(0),
                          .out = run.y,
                          .count = count,
                          .shard = shard_of(run.m, team_.size(), 0).count * spec_.n,
                          .dtype = spec_.dtype,
                          .bias = run.bias,
                          .columns = spec_.n,
                          .activation = spec_.activation};
  if (rows_ == Rows::all) {
    const std::size_t whole = static_cast<std::size_t>(run.m) * row_bytes_;
    const bool one_step = takes_one_step(team_, whole);
    exchange.form = one_step ? MailedForm::one_shot : MailedForm::two_shot;
    exchange.out = all_rows(run);
    exchange.shard = one_step ? 0 : static_cast<std::int64_t>(kernel_chunk(whole, team_.size()) / size_of(spec_.dtype));
  }
  exchange.length = exchange.form == MailedForm::one_shot ? count : exchange.shard;
  const TraceRange range(team_.device(), stream, "exchange partial sums", TraceKind::exchange);
  lanes_.exchange(stream, exchange);
}

void PartialSums::wait_for_parts(std::uint32_t round, StreamRef stream) const {
  const TraceRange range(team_.device(), stream, "wait for partial sums", TraceKind::wait);
  slots_.wait(stream, slot_, slots_.peers(), in_region(round));
}

void PartialSums::add(const Operands& run, const ShardPart& part, StreamRef stream) const {
  const Shard rows = own_rows(run.m, part);
  if (rows.count == 0) return;
  const std::size_t before = bytes_before(run, team_.rank(), rows);
  std::vector<const void*> sources;
  for (int rank = 0; rank < team_.size(); ++rank) {
    sources.push_back((rank == team_.rank() ? own_ : region(team_.rank(), rank)) + before);
  }
  std::vector<void*> destinations{run.y + before};
  if (has_tail()) destinations.push_back(tail(team_.rank()) + before);
  const TraceRange range(team_.device(), stream, "reduce", TraceKind::compute);
  team_.device().reduce(stream, sum_of(run, sources, destinations, rows.count));
}

void PartialSums::wait_for_sums(StreamRef stream) const {
  const TraceRange range(team_.device(), stream, "wait for sums", TraceKind::wait);
  slots_.wait(stream, slot_, slots_.peers(), in_tail);
}

void PartialSums::take_sums(const Operands& run, std::uint32_t round, StreamRef stream) const {
  std::vector<Copy> copies;
  for (const int peer : slots_.peers()) {
    const Shard rows = part_rows(run.m, team_.size(), peer, rounds_[round]);
    copies.push_back({.dst = all_rows(run) + static_cast<std::size_t>(rows.begin) * row_bytes_,
                      .src = tail(peer) + bytes_before(run, peer, rows),
                      .bytes = static_cast<std::size_t>(rows.count) * row_bytes_,
                      .path = Path::link});
  }
  const TraceRange range(team_.device(), stream, "take sums", TraceKind::communication);
  team_.device().copy_batch(stream, copies);
}

void PartialSums::keep_sums(const Operands& run, StreamRef stream) const {
  const Shard rows = own_rows(run.m, whole_shard);
  if (rows.count == 0) return;
  const Copy copy{.dst = run.y, .src = tail(team_.rank()), .bytes = static_cast<std::size_t>(rows.count) * row_bytes_};
  enqueue(team_.device(), stream, std::span(&copy, 1), sms_);
}

}  // namespace tandem

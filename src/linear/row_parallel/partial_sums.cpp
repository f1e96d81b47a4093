// SPDX-License-Identifier: Apache-2.0
#include "linear/row_parallel/partial_sums.hpp"

#include <iterator>
#include <utility>

#include "tandem/device/trace_range.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "collective/engines.hpp"
#include "collective/plan_buffer.hpp"
#include "linear/algorithms.hpp"

namespace tandem {
namespace {

constexpr std::size_t region_alignment = 256;

std::size_t region_bytes(const RowParallelLayer& layer) {
  const auto most_rows = static_cast<std::size_t>(shard_of(layer.spec.m, layer.team.size(), 0).count);
  return checked_round_up(checked_mul(most_rows, layer.row_bytes()), region_alignment);
}

}  // namespace

PartialSums::PartialSums(const RowParallelLayer& layer, PartialProduct& product, std::vector<ShardPart> its_rounds)
    : layer_(layer),
      product_(product),
      row_bytes_(layer.row_bytes()),
      region_bytes_(region_bytes(layer)),
      tail_offset_(checked_mul(region_bytes_, static_cast<std::size_t>(layer.team.size()))),
      rounds_(std::move(its_rounds)),
      slots_(layer.team, checked_add(tail_offset_, has_tail() ? region_bytes_ : 0), 1 + rounds(), layer.operation),
      staging_(layer.team,
               plan_buffer(layer.team, layer.choice.algorithm == direct
                                           ? 0
                                           : checked_mul(static_cast<std::size_t>(layer.spec.m), row_bytes_))) {}

Owners PartialSums::owners() const {
  Owners owners = slots_.owners();
  owners.push_back(staging_.shared());
  return owners;
}

std::string PartialSums::communication() const {
  const bool copies = layer_.choice.algorithm != direct;
  return format("{}; {}",
                copies ? format("pushes by {}", copied_by(team().device(), layer_.choice.sms)) : "the products' stores",
                product_.adds() ? "the product of the own rows adds what the peer has sent"
                                : format("sums by {}", summed_by(team().device(), layer_.choice.sms)));
}

void PartialSums::multiply_overlapped(const RowParallelOperands& run, std::span<const ShardGroup> groups,
                                      StreamRef stream, CommunicationStreams& communication) {
  take_slot(stream);
  const auto multiply_group = [&](const ShardGroup& group) {
    for (const Shard rows : group_rows(run.m, team().size(), slots_.peers(), group)) {
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

// A GEMM's stores cross the link while it runs: an emulated link is occupied from the GEMM's start by all rows but the
// last, which crosses when the GEMM has ended.
void PartialSums::multiply_direct(const RowParallelOperands& run, StreamRef stream, CommunicationStreams& streams) {
  SideStream& communication = streams[0];
  take_slot(stream);
  communication.follow(stream);
  for (const int& peer : slots_.peers()) {
    const Shard rows = shard_of(run.m, team().size(), peer);
    const std::size_t last_row = rows.count > 0 ? row_bytes_ : 0;
    {
      const TraceRange range(team().device(), communication.ref(), "partial sums cross", TraceKind::communication);
      team().device().cross_link(communication.ref(), static_cast<std::size_t>(rows.count) * row_bytes_ - last_row);
    }
    product_.multiply(run, rows, region(peer, rank()), stream);
    communication.follow(stream);
    team().device().cross_link(communication.ref(), last_row);
    slots_.signal_counted(communication.ref(), slot_, std::span(&peer, 1), in_region(0));
  }
  multiply_own(run, 0, stream);
}

void PartialSums::in_sequence(const RowParallelOperands& run, StreamRef stream) {
  slot_ = slots_.next();
  product_.multiply_all(run, staged(0), stream);
  push_all(run, stream);
  {
    const TraceRange range(team().device(), stream, "wait for partial sums", TraceKind::wait);
    slots_.exchange(stream, slot_, in_region(0));
  }
  add(run, whole_shard, staged(layer_.own_rows(run.m).begin), stream);
}

void PartialSums::take_slot(StreamRef stream) {
  slot_ = slots_.next();
  // Before all GEMMs (see ShardGather::take_slot).
  slots_.take_and_count(stream, slot_, slots_.peers(), in_region(0), rounds());
  product_.begin();
}

void PartialSums::multiply_peers(const RowParallelOperands& run, std::uint32_t round, StreamRef stream,
                                 CommunicationStreams& communication) {
  ShardPart part = rounds_[round];
  for (part.shard = 0; part.shard < std::ssize(slots_.peers()); ++part.shard) {
    const int owner = slots_.peers()[static_cast<std::size_t>(part.shard)];
    multiply_staged(run, part_rows(run.m, team().size(), owner, part), stream);
    communication[part.shard].follow(stream);
    push(run, part, true, round, communication[part.shard].ref());
  }
}

void PartialSums::multiply_own(const RowParallelOperands& run, std::uint32_t round, StreamRef stream) {
  const Shard rows = own_rows(run.m, rounds_[round]);
  product_.multiply_own(run, rows, region(rank(), rank()) + bytes_before(run, rank(), rows), stream);
}

void PartialSums::multiply_adding(const RowParallelOperands& run, std::uint32_t round, StreamRef stream) {
  wait_for_parts(round, stream);
  const Shard rows = own_rows(run.m, rounds_[round]);
  const std::size_t before = bytes_before(run, rank(), rows);
  product_.multiply_adding(run, rows, region(rank(), slots_.peers().front()) + before,
                           (has_tail() ? tail(rank()) : run.y) + before, stream);
}

void PartialSums::push(const RowParallelOperands& run, const ShardPart& part, bool last, std::uint32_t round,
                       StreamRef stream) const {
  const TraceRange range(team().device(), stream, "push partial sums", TraceKind::communication);
  const int& owner = slots_.peers()[static_cast<std::size_t>(part.shard)];
  const Shard rows = part_rows(run.m, team().size(), owner, part);
  team().device().copy(stream, {.dst = region(owner, rank()) + bytes_before(run, owner, rows),
                                .src = staged(rows.begin),
                                .bytes = static_cast<std::size_t>(rows.count) * row_bytes_,
                                .path = Path::link});
  if (last) slots_.signal_counted(stream, slot_, std::span(&owner, 1), in_region(round));
}

void PartialSums::push_all(const RowParallelOperands& run, StreamRef stream) const {
  const TraceRange range(team().device(), stream, "push partial sums", TraceKind::communication);
  std::vector<Copy> pushes;
  for (const int owner : slots_.peers()) {
    const Shard rows = shard_of(run.m, team().size(), owner);
    pushes.push_back({.dst = region(owner, rank()),
                      .src = staged(rows.begin),
                      .bytes = static_cast<std::size_t>(rows.count) * row_bytes_,
                      .path = Path::link});
  }
  slots_.take(stream, slot_, slots_.peers());
  team().device().copy_batch(stream, pushes);
}

void PartialSums::wait_for_parts(std::uint32_t round, StreamRef stream) const {
  const TraceRange range(team().device(), stream, "wait for partial sums", TraceKind::wait);
  slots_.wait(stream, slot_, slots_.peers(), in_region(round));
}

void PartialSums::add(const RowParallelOperands& run, const ShardPart& part, const std::byte* own,
                      StreamRef stream) const {
  const Shard rows = own_rows(run.m, part);
  if (rows.count == 0) return;
  const std::size_t before = bytes_before(run, rank(), rows);
  std::vector<const void*> sources;
  for (int from = 0; from < team().size(); ++from) {
    sources.push_back((from == rank() ? own : region(rank(), from)) + before);
  }
  std::vector<void*> destinations{run.y + before};
  if (has_tail()) destinations.push_back(tail(rank()) + before);
  const TraceRange range(team().device(), stream, "reduce", TraceKind::compute);
  team().device().reduce(stream, layer_.sum_of(run, sources, destinations, rows.count));
}

void PartialSums::wait_for_sums(StreamRef stream) const {
  const TraceRange range(team().device(), stream, "wait for sums", TraceKind::wait);
  slots_.wait(stream, slot_, slots_.peers(), in_tail);
}

void PartialSums::take_sums(const RowParallelOperands& run, std::uint32_t round, StreamRef stream) const {
  std::vector<Copy> copies;
  for (const int peer : slots_.peers()) {
    const Shard rows = part_rows(run.m, team().size(), peer, rounds_[round]);
    copies.push_back({.dst = layer_.all_rows(run) + static_cast<std::size_t>(rows.begin) * row_bytes_,
                      .src = tail(peer) + bytes_before(run, peer, rows),
                      .bytes = static_cast<std::size_t>(rows.count) * row_bytes_,
                      .path = Path::link});
  }
  const TraceRange range(team().device(), stream, "take sums", TraceKind::communication);
  team().device().copy_batch(stream, copies);
}

void PartialSums::keep_sums(const RowParallelOperands& run, StreamRef stream) const {
  const Shard rows = own_rows(run.m, whole_shard);
  if (rows.count == 0) return;
  const Copy copy{.dst = run.y, .src = tail(rank()), .bytes = static_cast<std::size_t>(rows.count) * row_bytes_};
  enqueue(team().device(), stream, std::span(&copy, 1), layer_.choice.sms);
}

}  // namespace tandem

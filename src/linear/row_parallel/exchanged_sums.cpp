// SPDX-License-Identifier: Apache-2.0
#include "linear/row_parallel/exchanged_sums.hpp"

#include <algorithm>
#include <vector>

#include "tandem/device/trace_range.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "collective/plan_buffer.hpp"
#include "collective/tuning.hpp"
#include "linear/algorithms.hpp"

namespace tandem {
namespace {

using Rows = RowParallelLayer::Rows;

const CollectiveTuning& tuning_of(const RowParallelLayer& layer) {
  return collective_tuning(layer.team.device().id().type);
}

/// Of the largest run.
std::size_t whole_bytes(const RowParallelLayer& layer) {
  return checked_mul(static_cast<std::size_t>(layer.spec.m), layer.row_bytes());
}

/// Whether every rank sums all `whole` bytes, in one step; otherwise each sums its chunk first, in two.
bool takes_one_step(const RowParallelLayer& layer, std::size_t whole) {
  return whole <= one_step_up_to(tuning_of(layer), layer.team.size());
}

/// Whether what follows the GEMM is large enough for kernels that work on all ranks' results, whatever y is.
bool meets_always(const RowParallelLayer& layer) {
  const std::size_t whole = whole_bytes(layer);
  const std::size_t sent =
      layer.summed == Rows::all ? whole : whole - whole / static_cast<std::size_t>(layer.team.size());
  return sent > tuning_of(layer).direct_above_bytes;
}

/// Whether it is large enough for them if y is symmetric.
bool meets_into_symmetric(const RowParallelLayer& layer, std::size_t whole) {
  return layer.summed == Rows::all && layer.team.size() > 2 &&
         whole > direct_all_reduce_above(tuning_of(layer), layer.team.size());
}

/// Memory for what follows the GEMM, if kernels that work on all ranks' results do it.
MeetingPlace meeting_of(const RowParallelLayer& layer) {
  const Team& team = layer.team;
  const std::size_t whole = whole_bytes(layer);
  const bool may = team.device().meets() && team.size() > 1 && kernel_takes_rows(team.size(), layer.row_bytes());
  const bool wins = meets_always(layer) || meets_into_symmetric(layer, whole);
  if (layer.choice.algorithm != sequence || !may || !wins) return {};
  return {team, layer.choice.sms.value_or(MeetingPlace::most_blocks), layer.operation, whole};
}

/// Mailboxes for what follows the GEMM, if one small kernel does it.
MailLanes lanes_of(const RowParallelLayer& layer) {
  const Team& team = layer.team;
  const OneKernelLimit limit = one_kernel_limit(team.device(), team.size());
  const std::size_t whole = whole_bytes(layer);
  const std::size_t shard = static_cast<std::size_t>(shard_of(layer.spec.m, team.size(), 0).count) * layer.row_bytes();
  const bool fits = layer.summed == Rows::all ? whole <= limit.whole : shard <= limit.shard;
  if (layer.choice.algorithm != sequence || !fits || whole == 0) return {};
  std::size_t longest = shard;
  if (layer.summed == Rows::all) {
    // A run of fewer tokens may take one step where the largest takes two.
    const std::size_t one_step = one_step_up_to(tuning_of(layer), team.size());
    longest = std::max(kernel_chunk(whole, team.size()), std::min(whole, one_step));
  }
  return {team, longest, layer.choice.sms.value_or(MailLanes::most_lanes), layer.operation};
}

}  // namespace

ExchangedSums::ExchangedSums(const RowParallelLayer& layer)
    : layer_(layer),
      meeting_(meeting_of(layer)),
      lanes_(meeting_ && meets_always(layer) ? MailLanes() : lanes_of(layer)),
      staging_(layer.team, plan_buffer(layer.team, mails() && !meeting_ ? whole_bytes(layer) : 0)) {}

std::string ExchangedSums::communication() const {
  const bool two = !mails() && layer_.summed == Rows::all && !adds_up_all();
  const bool one_into_all = meeting_ && meets_into_symmetric(layer_, whole_bytes(layer_));
  return format("{} on at most {} SMs{}", two ? "two kernels" : "one kernel",
                mails() ? lanes_.lanes() : static_cast<std::size_t>(meeting_.blocks()),
                one_into_all ? format(", into a symmetric y one on at most {} that stores into those of all ranks",
                                      meeting_.blocks())
                             : "");
}

Owners ExchangedSums::owners() const {
  Owners owners = meeting_.owners();
  append(owners, lanes_.owners());
  owners.push_back(staging_.shared());
  return owners;
}

void ExchangedSums::run(PartialProduct& product, const RowParallelOperands& run, StreamRef stream) const {
  product.multiply_all(run, products(), stream);
  if (run.m == 0) return;
  if (stores_into_all(run)) {
    reduce_into_all(run, stream);
  } else if (mails()) {
    reduce_by_mail(run, stream);
  } else {
    reduce_in_meeting(run, stream);
  }
}

void ExchangedSums::reduce_by_mail(const RowParallelOperands& run, StreamRef stream) const {
  const LinearSpec& spec = layer_.spec;
  const std::int64_t count = run.m * spec.n;
  MailedExchange exchange{.form = MailedForm::reduce_scatter,
                          .input = products(),
                          .out = run.y,
                          .count = count,
                          .shard = shard_of(run.m, layer_.team.size(), 0).count * spec.n,
                          .dtype = spec.dtype_of_y(),
                          .bias = run.bias,
                          .columns = spec.n,
                          .activation = spec.activation};
  if (layer_.summed == Rows::all) {
    const std::size_t whole = static_cast<std::size_t>(run.m) * layer_.row_bytes();
    const bool one_step = takes_one_step(layer_, whole);
    exchange.form = one_step ? MailedForm::one_shot : MailedForm::two_shot;
    exchange.out = layer_.all_rows(run);
    exchange.shard =
        one_step ? 0 : static_cast<std::int64_t>(kernel_chunk(whole, layer_.team.size()) / size_of(spec.dtype_of_y()));
  }
  exchange.length = exchange.form == MailedForm::one_shot ? count : exchange.shard;
  const TraceRange range(layer_.team.device(), stream, "exchange partial sums", TraceKind::exchange);
  lanes_.exchange(stream, exchange);
}

void ExchangedSums::reduce_in_meeting(const RowParallelOperands& run, StreamRef stream) const {
  const Shard own = layer_.own_rows(run.m);
  const bool all = adds_up_all();
  const Shard rows = all ? Shard{0, run.m} : own;
  std::vector<const void*> sources;
  for (int rank = 0; rank < layer_.team.size(); ++rank) sources.push_back(met(rank, rows.begin));
  std::vector<void*> destinations{all ? layer_.all_rows(run) : run.y};
  const bool spreads = layer_.summed == Rows::all && !all;
  if (spreads) destinations.push_back(met(layer_.team.rank(), own.begin));
  {
    const TraceRange range(layer_.team.device(), stream, "exchange partial sums", TraceKind::exchange);
    const std::size_t most = all ? static_cast<std::size_t>(run.m) * layer_.row_bytes() : shard_bytes(run);
    meeting_.reduce(stream, layer_.sum_of(run, sources, destinations, rows.count), most);
  }
  if (spreads) take_sums_in_meeting(run, stream);
}

bool ExchangedSums::stores_into_all(const RowParallelOperands& run) const {
  return meeting_ && run.symmetric != nullptr &&
         meets_into_symmetric(layer_, static_cast<std::size_t>(run.m) * layer_.row_bytes());
}

void ExchangedSums::reduce_into_all(const RowParallelOperands& run, StreamRef stream) const {
  const int ranks = layer_.team.size();
  const Shard own = layer_.own_rows(run.m);
  const std::size_t before = static_cast<std::size_t>(own.begin) * layer_.row_bytes();
  std::vector<const void*> sources;
  std::vector<void*> destinations;
  for (int rank = 0; rank < ranks; ++rank) {
    sources.push_back(met(rank, own.begin));
    destinations.push_back(run.symmetric->remote(rank) + before);
  }
  Reduction sum = layer_.sum_of(run, sources, destinations, own.count);
  sum.peer_destinations = ranks - 1;
  const TraceRange range(layer_.team.device(), stream, "exchange partial sums", TraceKind::exchange);
  meeting_.reduce(stream, sum, shard_bytes(run));
}

void ExchangedSums::take_sums_in_meeting(const RowParallelOperands& run, StreamRef stream) const {
  const TraceRange range(layer_.team.device(), stream, "take sums", TraceKind::exchange);
  const int ranks = layer_.team.size();
  std::vector<Copy> copies;
  for (int step = 1; step < ranks; ++step) {
    const int peer = (layer_.team.rank() + step) % ranks;
    const Shard rows = shard_of(run.m, ranks, peer);
    copies.push_back({.dst = layer_.all_rows(run) + static_cast<std::size_t>(rows.begin) * layer_.row_bytes(),
                      .src = met(peer, rows.begin),
                      .bytes = static_cast<std::size_t>(rows.count) * layer_.row_bytes(),
                      .path = Path::link});
  }
  meeting_.copy(stream, copies, shard_bytes(run));
}

}  // namespace tandem

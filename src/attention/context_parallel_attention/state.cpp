// SPDX-License-Identifier: Apache-2.0
#include "attention/context_parallel_attention/state.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/copy.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/device/trace_range.hpp"

#include "base/enum_check.hpp"
#include "base/format.hpp"
#include "collective/plan_buffer.hpp"
#include "collective/side_stream.hpp"
#include "device/attention_check.hpp"
#include "team/names.hpp"

namespace tandem {
namespace {

std::string arguments_text(const ContextParallelSpec& spec) {
  return format(
      "of {} tokens split {}, batch {}, {} heads and {} kv_heads of {} and {}, {}, keys from {}, scale {}{}{}",
      spec.tokens, name(spec.split), spec.batch, spec.heads, spec.kv_heads, spec.head_dim, spec.dim_of_values(),
      name(spec.dtype), text_of(spec.band), spec.scale ? format("{}", *spec.scale) : std::string("1/sqrt(head_dim)"),
      spec.gradients ? ", with gradients" : "", spec.deterministic ? ", deterministic" : "");
}

/// The spec without bounds that hide no key. Throws InvalidArgument, on all ranks alike.
ContextParallelSpec checked(const Team& team, const std::string& kind, ContextParallelSpec spec) {
  const auto refuse = [&](const std::string& text) {
    throw InvalidArgument(format("{} on {}: {}", kind, name_own_rank(team), text));
  };
  if (const std::string why = why_unknown("its split", spec.split, SequenceSplit::contiguous); !why.empty())
    refuse(why);
  try {
    check_attention({.batch = spec.batch,
                     .queries = spec.tokens,
                     .keys = spec.tokens,
                     .heads = spec.heads,
                     .kv_heads = spec.kv_heads,
                     .head_dim = spec.head_dim,
                     .value_dim = spec.value_dim,
                     .dtype = spec.dtype,
                     .band = spec.band,
                     .scale = spec.scale});
  } catch (const InvalidArgument& error) {
    refuse(error.what());
  }
  for (std::optional<std::int64_t>* const bound : {&spec.band.left, &spec.band.right}) {
    if (*bound && **bound >= spec.tokens - 1) bound->reset();
  }
  return spec;
}

/// Of any rank: in a zigzag the first rank has the last chunk, which may be short.
std::int64_t most_tokens(const ContextParallelSpec& spec, int ranks) {
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, token_count(spec.split, spec.tokens, ranks, rank));
  return most;
}

std::size_t fresh_blocks(const AttentionSchedule& schedule) {
  const auto is_fresh = [](const AttentionBlock& block) { return block.queries == block.keys; };
  return static_cast<std::size_t>(std::ranges::count_if(schedule.own(), is_fresh));
}

std::vector<AttentionBlock> blocks_of(const AttentionSchedule& schedule) {
  std::vector<AttentionBlock> blocks = schedule.own();
  for (const AttentionSchedule::Fetch& fetch : schedule.fetches()) {
    blocks.insert(blocks.end(), fetch.blocks.begin(), fetch.blocks.end());
  }
  return blocks;
}

std::vector<std::vector<MergeTurn>> query_turns(const AttentionSchedule& schedule, std::size_t fresh) {
  std::vector<Shard> parts;
  for (const AttentionBlock& block : blocks_of(schedule)) parts.push_back(block.queries);
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(fresh));
  return merge_turns(schedule.tokens(), parts);
}

std::vector<std::vector<MergeTurn>> key_turns(const AttentionSchedule& schedule, std::size_t fresh) {
  std::vector<Shard> parts;
  for (std::size_t i = fresh; i < schedule.own().size(); ++i) parts.push_back(schedule.own()[i].keys);
  for (const AttentionSchedule::Return& each : schedule.returns()) parts.push_back(each.keys);
  return merge_turns(schedule.tokens(), parts);
}

/// Whether a part is added to a sum that is not complete, and not the first: sums need memory.
bool has_sums(const std::vector<std::vector<MergeTurn>>& turns) {
  return std::ranges::any_of(turns, [](const std::vector<MergeTurn>& part) {
    return std::ranges::any_of(part, [](const MergeTurn& turn) { return !turn.first || !turn.last; });
  });
}

/// Whether one block has all that is fetched, so that its gradients are those of the fetch.
bool is_whole(const AttentionSchedule::Fetch& fetch) { return fetch.blocks.size() == 1; }

/// What the plan's own memory must hold, in tokens.
struct Needs {
  std::int64_t part = 0;       ///< queries of a block that is merged
  std::int64_t sum = 0;        ///< queries
  std::int64_t key_part = 0;   ///< keys of a block whose gradients are merged
  std::int64_t key_sum = 0;    ///< keys of this rank
  std::int64_t fetch_sum = 0;  ///< keys of a fetch
};

Needs needs_of(const ContextParallelSpec& spec, const AttentionSchedule& schedule, std::size_t fresh) {
  Needs needs;
  const std::vector<AttentionBlock> blocks = blocks_of(schedule);
  for (std::size_t i = fresh; i < blocks.size(); ++i) needs.part = std::max(needs.part, blocks[i].queries.count);
  if (has_sums(query_turns(schedule, fresh))) needs.sum = schedule.tokens();
  if (!spec.gradients) return needs;
  for (std::size_t i = fresh; i < schedule.own().size(); ++i) {
    needs.key_part = std::max(needs.key_part, schedule.own()[i].keys.count);
  }
  if (has_sums(key_turns(schedule, fresh))) needs.key_sum = schedule.tokens();
  for (const AttentionSchedule::Fetch& fetch : schedule.fetches()) {
    if (is_whole(fetch)) continue;
    for (const AttentionBlock& block : fetch.blocks) needs.key_part = std::max(needs.key_part, block.keys.count);
    needs.fetch_sum = std::max(needs.fetch_sum, fetch.keys.count);
  }
  return needs;
}

Reclaimed<Buffer> memory_for(const Team& team, std::size_t bytes) {
  return Reclaimed<Buffer>(team, plan_buffer(team, bytes));
}

/// An address in memory that is read or, as the callers see to, may be written.
std::byte* at(const void* memory, std::size_t offset) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(memory)) + offset;
}

}  // namespace

ContextParallelAttention::State::State(const Team& team, const ContextParallelSpec& spec)
    : PlanState(team, "ContextParallelAttention", arguments_text(spec)),
      spec_(checked(team, kind(), spec)),
      schedule_(spec_, team.size(), team.rank()),
      rows_(key_value_rows(spec_)),
      fresh_(fresh_blocks(schedule_)),
      query_turns_(query_turns(schedule_, fresh_)),
      key_turns_(key_turns(schedule_, fresh_)),
      attentions_(team, spec_, schedule_),
      fetches_(team, schedule_, rows_, most_tokens(spec_, team.size()), operation()) {
  if (spec_.gradients) returned_.emplace(team, spec_, schedule_, rows_, operation());
  const Needs needs = needs_of(spec_, schedule_, fresh_);
  const std::size_t widened = size_of(f32) / size_of(spec_.dtype);
  part_ = memory_for(team, std::max(query_bytes(needs.part), out_bytes(needs.part)));
  statistics_part_ = memory_for(team, statistics_bytes(std::max(needs.part, schedule_.tokens())));
  sum_ = memory_for(team, std::max(query_bytes(needs.sum), out_bytes(needs.sum)) * widened);
  key_part_ = memory_for(team, rows_.both(needs.key_part));
  key_sum_ = memory_for(team, rows_.both(needs.key_sum) * widened);
  fetch_sum_ = memory_for(team, rows_.both(needs.fetch_sum) * widened);
  Owners owners = attentions_.owners();
  append(owners, fetches_.owners());
  if (returned_) append(owners, returned_->owners());
  if (spec_.gradients) {
    for (const AttentionBlock& block : blocks_of(schedule_)) {
      const bool known = std::ranges::find(packed_, block.queries, &Statistics::queries) != packed_.end();
      if (known || block.queries.count == schedule_.tokens()) continue;
      packed_.push_back({block.queries, memory_for(team, statistics_bytes(block.queries.count))});
      owners.push_back(packed_.back().memory.shared());
    }
  }
  for (const Reclaimed<Buffer>* each : {&part_, &statistics_part_, &sum_, &key_part_, &key_sum_, &fetch_sum_}) {
    owners.push_back(each->shared());
  }
  keep_in_graphs(std::move(owners));
  set_description(format("{}\n{}\n{}{}{}", describe(), fetches_.describe(),
                         returned_ ? returned_->describe() : "no gradients", attentions_.describe().empty() ? "" : "\n",
                         attentions_.describe()));
}

std::size_t ContextParallelAttention::State::query_bytes(std::int64_t tokens) const noexcept {
  return static_cast<std::size_t>(tokens * spec_.batch * spec_.heads * spec_.head_dim) * size_of(spec_.dtype);
}

std::size_t ContextParallelAttention::State::out_bytes(std::int64_t tokens) const noexcept {
  return static_cast<std::size_t>(tokens * spec_.batch * spec_.heads * spec_.dim_of_values()) * size_of(spec_.dtype);
}

std::size_t ContextParallelAttention::State::statistics_bytes(std::int64_t tokens) const noexcept {
  return static_cast<std::size_t>(tokens * spec_.batch * spec_.heads) * size_of(f32);
}

ContextParallelAttention::State::Merged ContextParallelAttention::State::merged_out(const TensorView& out) const {
  return {out.data(), sum_->data(), spec_.heads, spec_.dim_of_values()};
}

ContextParallelAttention::State::Merged ContextParallelAttention::State::merged_dq(const TensorView& dq) const {
  return {dq.data(), sum_->data(), spec_.heads, spec_.head_dim};
}

void ContextParallelAttention::State::expect_taken(const Tensors& tensors) const {
  const std::int64_t n = schedule_.tokens();
  expect(tensors.q, "q", spec_.dtype, {n, spec_.batch, spec_.heads, spec_.head_dim});
  expect(tensors.k, "k", spec_.dtype, {n, spec_.batch, spec_.kv_heads, spec_.head_dim});
  expect(tensors.v, "v", spec_.dtype, {n, spec_.batch, spec_.kv_heads, spec_.dim_of_values()});
  expect(tensors.out, "out", spec_.dtype, {n, spec_.batch, spec_.heads, spec_.dim_of_values()});
  expect(tensors.lse, "lse", f32, {spec_.batch, spec_.heads, n});
  expect_aligned(tensors.q, "q");
  expect_aligned(tensors.k, "k");
  expect_aligned(tensors.v, "v");
  expect_aligned(tensors.out, "out");
}

void ContextParallelAttention::State::expect_aligned(const TensorView& view, std::string_view name) const {
  if (reinterpret_cast<std::uintptr_t>(view.data()) % attentions_.alignment() == 0) return;
  refuse(format("{} begins at {}; on {} it must begin at a multiple of {} bytes", name, view.data(),
                to_string(device().id()), attentions_.alignment()));
}

void ContextParallelAttention::State::expect_apart_from(const TensorView& result, std::string_view name,
                                                        const Tensors& tensors) const {
  expect_apart(result, name, tensors.q, "q");
  expect_apart(result, name, tensors.k, "k");
  expect_apart(result, name, tensors.v, "v");
}

void ContextParallelAttention::State::forward(const Tensors& tensors, StreamRef stream) {
  expect_taken(tensors);
  expect_apart_from(tensors.out, "out", tensors);
  expect_apart_from(tensors.lse, "lse", tensors);
  expect_apart(tensors.out, "out", tensors.lse, "lse");
  expect_alike(stream, [] { return std::string("forward"); });
  begin(stream);
  whole_or_failed([&] {
    rejoin_if_thrown(fetches_, stream, [&] {
      fetches_.start(tensors.k.data(), tensors.v.data(), stream);
      std::size_t number = 0;
      for (const AttentionBlock& block : schedule_.own()) {
        attend({block, number++}, tensors, {at(tensors.k.data(), 0), at(tensors.v.data(), 0)}, stream);
      }
      for (std::size_t i = 0; i < schedule_.fetches().size(); ++i) {
        const KeysAndValues fetched = fetches_.wait(i, stream);
        for (const AttentionBlock& block : schedule_.fetches()[i].blocks) {
          attend({block, number++}, tensors, fetched, stream);
        }
        fetches_.release(i, stream);
      }
      fetches_.finish(stream);
    });
    end(stream);
  });
}

void ContextParallelAttention::State::attend(const Turn& turn, const Tensors& tensors, KeysAndValues keys,
                                             StreamRef stream) const {
  const AttentionBlock& block = turn.block;
  const bool fresh = is_fresh(turn);
  const bool all = block.queries.count == schedule_.tokens();
  auto* const lse = static_cast<float*>(tensors.lse.data());
  auto* const lse_part = static_cast<float*>(statistics_part_->data());
  {
    const TraceRange range(device(), stream, "attention", TraceKind::compute);
    attentions_.of(block).forward(
        stream, {.q = at(tensors.q.data(), query_bytes(block.queries.begin)),
                 .k = keys.keys + rows_.keys(block.keys.begin),
                 .v = keys.values + rows_.values(block.keys.begin),
                 .out = fresh ? at(tensors.out.data(), out_bytes(block.queries.begin)) : part_->data(),
                 .lse = fresh && all ? lse : lse_part});
  }
  if (!fresh) {
    merge(query_turns_[turn.number - fresh_], block.queries, part_->data(), merged_out(tensors.out), lse, lse_part,
          stream);
  } else if (!all) {
    const std::size_t bytes = static_cast<std::size_t>(block.queries.count) * size_of(f32);
    device().copy(stream, {.dst = lse + block.queries.begin,
                           .src = lse_part,
                           .bytes = bytes,
                           .rows = static_cast<std::size_t>(spec_.batch * spec_.heads),
                           .dst_pitch = static_cast<std::size_t>(schedule_.tokens()) * size_of(f32),
                           .src_pitch = bytes});
  }
}

void ContextParallelAttention::State::merge(const std::vector<MergeTurn>& turns, const Shard& range, const void* part,
                                            const Merged& into, float* lse, const float* lse_part,
                                            StreamRef stream) const {
  const TraceRange trace(device(), stream, lse == nullptr ? "add gradients" : "merge", TraceKind::compute);
  for (const MergeTurn& turn : turns) {
    device().merge(stream, {.before = turn.first ? into.result : into.sum,
                            .after = turn.last ? into.result : into.sum,
                            .part = part,
                            .lse = lse,
                            .lse_part = lse == nullptr ? nullptr : lse_part,
                            .rows = {.count = turn.range.count,
                                     .first = turn.range.begin,
                                     .tokens = schedule_.tokens(),
                                     .part_first = turn.range.begin - range.begin,
                                     .part_tokens = range.count},
                            .batch = spec_.batch,
                            .heads = into.heads,
                            .dim = into.dim,
                            .dtype = spec_.dtype,
                            .before_dtype = turn.first ? spec_.dtype : f32,
                            .after_dtype = turn.last ? spec_.dtype : f32});
  }
}

void ContextParallelAttention::State::backward(const Tensors& tensors, const Gradients& gradients, StreamRef stream) {
  if (!returned_) refuse("backward was called; its spec has no gradients");
  expect_taken(tensors);
  expect(gradients.grad_out, "grad_out", spec_.dtype, tensors.out.sizes());
  expect(gradients.dq, "dq", spec_.dtype, tensors.q.sizes());
  expect(gradients.dk, "dk", spec_.dtype, tensors.k.sizes());
  expect(gradients.dv, "dv", spec_.dtype, tensors.v.sizes());
  expect_aligned(gradients.grad_out, "grad_out");
  for (const auto& [result, name] : {std::pair{&gradients.dq, "dq"}, {&gradients.dk, "dk"}, {&gradients.dv, "dv"}}) {
    expect_aligned(*result, name);
    expect_apart_from(*result, name, tensors);
    expect_apart(*result, name, gradients.grad_out, "grad_out");
    expect_apart(*result, name, tensors.out, "out");
    expect_apart(*result, name, tensors.lse, "lse");
  }
  expect_apart(gradients.dq, "dq", gradients.dk, "dk");
  expect_apart(gradients.dq, "dq", gradients.dv, "dv");
  expect_apart(gradients.dk, "dk", gradients.dv, "dv");
  expect_alike(stream, [] { return std::string("backward"); });
  begin(stream);
  struct Streams {
    KeyValueFetches& fetches;
    ReturnedGradients& returned;
    void rejoin(StreamRef to) {
      rejoin_if_thrown(returned, to, [&] { fetches.rejoin(to); });
      returned.rejoin(to);
    }
  } streams{fetches_, *returned_};
  whole_or_failed([&] {
    rejoin_if_thrown(streams, stream, [&] {
      fetches_.start(tensors.k.data(), tensors.v.data(), stream);
      pack_statistics(tensors.lse, stream);
      std::size_t number = 0;
      const KeysAndValues own{at(tensors.k.data(), 0), at(tensors.v.data(), 0)};
      for (const AttentionBlock& block : schedule_.own()) {
        const Turn turn{block, number++};
        const KeysAndValues results{at(gradients.dk.data(), rows_.keys(block.keys.begin)),
                                    at(gradients.dv.data(), rows_.values(block.keys.begin))};
        const KeysAndValues part{at(key_part_->data(), 0), at(key_part_->data(), rows_.keys(block.keys.count))};
        differentiate(turn, tensors, gradients, own, is_fresh(turn) ? results : part, stream);
        if (!is_fresh(turn)) add_to_own(turn.number - fresh_, block.keys, part, gradients, stream);
      }
      std::size_t received = 0;
      const auto receive = [&](int most) {
        const std::vector<AttentionSchedule::Return>& returns = schedule_.returns();
        for (; received < returns.size() && returns[received].distance <= most; ++received) {
          const KeysAndValues part = returned_->wait(received, stream);
          add_to_own(schedule_.own().size() - fresh_ + received, returns[received].keys, part, gradients, stream);
          returned_->release(received, stream);
        }
      };
      for (std::size_t i = 0; i < schedule_.fetches().size(); ++i) {
        const AttentionSchedule::Fetch& fetch = schedule_.fetches()[i];
        receive(fetch.distance - 2);
        const KeysAndValues fetched = fetches_.wait(i, stream);
        differentiate_fetched(fetch, number, tensors, gradients, fetched, returned_->open(i, stream), stream);
        number += fetch.blocks.size();
        fetches_.release(i, stream);
        returned_->send(i, stream);
      }
      receive(team().size());
      fetches_.finish(stream);
      returned_->rejoin(stream);
    });
    end(stream);
  });
}

void ContextParallelAttention::State::pack_statistics(const TensorView& lse, StreamRef stream) const {
  for (const Statistics& each : packed_) {
    const std::size_t bytes = static_cast<std::size_t>(each.queries.count) * size_of(f32);
    device().copy(stream, {.dst = each.memory->data(),
                           .src = static_cast<const float*>(lse.data()) + each.queries.begin,
                           .bytes = bytes,
                           .rows = static_cast<std::size_t>(spec_.batch * spec_.heads),
                           .dst_pitch = bytes,
                           .src_pitch = static_cast<std::size_t>(schedule_.tokens()) * size_of(f32)});
  }
}

const float* ContextParallelAttention::State::statistics_of(const AttentionBlock& block, const TensorView& lse) const {
  const auto packed = std::ranges::find(packed_, block.queries, &Statistics::queries);
  return static_cast<const float*>(packed == packed_.end() ? lse.data() : packed->memory->data());
}

void ContextParallelAttention::State::differentiate(const Turn& turn, const Tensors& tensors,
                                                    const Gradients& gradients, KeysAndValues keys, KeysAndValues into,
                                                    StreamRef stream) const {
  const AttentionBlock& block = turn.block;
  const bool fresh = is_fresh(turn);
  {
    const TraceRange range(device(), stream, "attention's gradients", TraceKind::compute);
    attentions_.of(block).backward(
        stream, {.grad_out = at(gradients.grad_out.data(), out_bytes(block.queries.begin)),
                 .q = at(tensors.q.data(), query_bytes(block.queries.begin)),
                 .k = keys.keys + rows_.keys(block.keys.begin),
                 .v = keys.values + rows_.values(block.keys.begin),
                 .out = at(tensors.out.data(), out_bytes(block.queries.begin)),
                 .lse = statistics_of(block, tensors.lse),
                 .dq = fresh ? at(gradients.dq.data(), query_bytes(block.queries.begin)) : part_->data(),
                 .dk = into.keys,
                 .dv = into.values});
  }
  if (fresh) return;
  merge(query_turns_[turn.number - fresh_], block.queries, part_->data(), merged_dq(gradients.dq), nullptr, nullptr,
        stream);
}

void ContextParallelAttention::State::differentiate_fetched(const AttentionSchedule::Fetch& fetch, std::size_t number,
                                                            const Tensors& tensors, const Gradients& gradients,
                                                            KeysAndValues keys, KeysAndValues into,
                                                            StreamRef stream) const {
  if (is_whole(fetch)) {
    return differentiate({fetch.blocks.front(), number}, tensors, gradients, keys, into, stream);
  }
  // Some keys are seen by queries of several blocks, and others perhaps by none: their gradients are summed in f32.
  const std::size_t widened = size_of(f32) / size_of(spec_.dtype);
  const KeysAndValues sums{at(fetch_sum_->data(), 0), at(fetch_sum_->data(), rows_.keys(fetch.keys.count) * widened)};
  device().fill(stream, sums.keys, std::byte{0}, rows_.both(fetch.keys.count) * widened);
  for (const AttentionBlock& block : fetch.blocks) {
    const KeysAndValues part{at(key_part_->data(), 0), at(key_part_->data(), rows_.keys(block.keys.count))};
    differentiate({block, number++}, tensors, gradients, keys, part, stream);
    const auto add = [&](const void* of_block, void* sum, std::int64_t dim) {
      device().merge(stream, {.before = sum,
                              .after = sum,
                              .part = of_block,
                              .rows = {.count = block.keys.count,
                                       .first = block.keys.begin,
                                       .tokens = fetch.keys.count,
                                       .part_tokens = block.keys.count},
                              .batch = spec_.batch,
                              .heads = spec_.kv_heads,
                              .dim = dim,
                              .dtype = spec_.dtype});
    };
    add(part.keys, sums.keys, spec_.head_dim);
    add(part.values, sums.values, spec_.dim_of_values());
  }
  device().map(stream, {.kind = MapKind::cast,
                        .out = into.keys,
                        .x = sums.keys,
                        .count = static_cast<std::int64_t>(rows_.both(fetch.keys.count) / size_of(spec_.dtype)),
                        .dtype = f32,
                        .out_dtype = spec_.dtype});
}

void ContextParallelAttention::State::add_to_own(std::size_t number, const Shard& keys, KeysAndValues part,
                                                 const Gradients& gradients, StreamRef stream) const {
  const std::size_t widened = size_of(f32) / size_of(spec_.dtype);
  merge(key_turns_[number], keys, part.keys, {gradients.dk.data(), key_sum_->data(), spec_.kv_heads, spec_.head_dim},
        nullptr, nullptr, stream);
  merge(key_turns_[number], keys, part.values,
        {gradients.dv.data(), at(key_sum_->data(), rows_.keys(schedule_.tokens()) * widened), spec_.kv_heads,
         spec_.dim_of_values()},
        nullptr, nullptr, stream);
}

}  // namespace tandem

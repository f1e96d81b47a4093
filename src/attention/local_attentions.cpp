// SPDX-License-Identifier: Apache-2.0
#include "attention/local_attentions.hpp"

#include <algorithm>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/attention_check.hpp"
#include "team/or_abort.hpp"

namespace tandem {

// What a rank's device cannot compute is no reason to fail the team: no rank has more of the plan than attentions.
LocalAttentions::LocalAttentions(const Team& team, const ContextParallelSpec& spec, const AttentionSchedule& schedule) {
  std::string lacking;
  or_abort(team, "local attention", [&] {
    try {
      for (const AttentionBlock& block : schedule.own()) add(team, spec, block);
      for (const AttentionSchedule::Fetch& fetch : schedule.fetches()) {
        for (const AttentionBlock& block : fetch.blocks) add(team, spec, block);
      }
    } catch (const Unsupported& error) {
      lacking = error.what();
    }
  });
  try {
    team.agree("ContextParallelAttention", lacking.empty() ? "blocks that its device can compute" : lacking);
  } catch (const InvalidArgument& differs) {
    if (lacking.empty()) lacking = differs.what();
  }
  if (!lacking.empty()) throw Unsupported(lacking);
}

void LocalAttentions::add(const Team& team, const ContextParallelSpec& spec, const AttentionBlock& block) {
  if (find(block) != nullptr) return;
  attentions_.emplace_back(team, team.device().attention({.batch = spec.batch,
                                                          .queries = block.queries.count,
                                                          .keys = block.keys.count,
                                                          .heads = spec.heads,
                                                          .kv_heads = spec.kv_heads,
                                                          .head_dim = spec.head_dim,
                                                          .value_dim = spec.value_dim,
                                                          .dtype = spec.dtype,
                                                          .band = block.band,
                                                          .scale = spec.scale,
                                                          .gradients = spec.gradients,
                                                          .deterministic = spec.deterministic}));
}

Attention* LocalAttentions::find(const AttentionBlock& block) const noexcept {
  const auto found = std::ranges::find_if(attentions_, [&](const Reclaimed<Attention>& each) {
    const AttentionSpec& spec = each->spec();
    return spec.queries == block.queries.count && spec.keys == block.keys.count && spec.band == block.band;
  });
  return found == attentions_.end() ? nullptr : &**found;
}

std::size_t LocalAttentions::alignment() const noexcept {
  std::size_t most = 1;
  for (const Reclaimed<Attention>& each : attentions_) most = std::max(most, each->alignment());
  return most;
}

Attention& LocalAttentions::of(const AttentionBlock& block) const { return *find(block); }

Owners LocalAttentions::owners() const {
  Owners owners;
  for (const Reclaimed<Attention>& each : attentions_) owners.push_back(each.shared());
  return owners;
}

std::string LocalAttentions::describe() const {
  std::string text;
  for (const Reclaimed<Attention>& each : attentions_) {
    const AttentionSpec& spec = each->spec();
    const std::string seen = spec.band.sees_all() ? std::string("all") : format("from {}", text_of(spec.band));
    text += format("{}{} queries to {} keys ({}): {}", text.empty() ? "" : "\n", spec.queries, spec.keys, seen,
                   each->describe());
  }
  return text;
}

}  // namespace tandem

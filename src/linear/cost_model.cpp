// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/cost_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "linear/algorithms.hpp"
#include "linear/groups.hpp"

namespace tandem {
namespace {

/// Whether tensor cores multiply 8-bit operands like these: otherwise GPUs do it in f32 (see GemmSpec).
bool takes_float8(const LinearSpec& spec) noexcept {
  const bool on_16_bytes = spec.k % 16 == 0 && static_cast<std::size_t>(spec.n) * size_of(spec.dtype_of_y()) % 16 == 0;
  return on_16_bytes && spec.x_layout == Layout::normal && spec.weight_layout == Layout::normal &&
         (spec.dtype != f8e5m2 || spec.dtype_of_weight() != f8e5m2);
}

/// The most groups per shard: finer ones cost more launches than they hide. A single peer's shard may be cut finer,
/// since what remains exposed at the end is one of its groups.
constexpr int groups_for_each_shard = 4;
constexpr int groups_for_the_only_shard = 8;
/// The most rounds of an all-reduce.
constexpr int most_rounds = 8;

/// The times of an operation's parts, from a device's cost constants.
class Pieces {
 public:
  Pieces(LinearKind kind, const LinearSpec& spec, int ranks, const CostTable& costs)
      : kind_(kind), spec_(spec), ranks_(ranks), costs_(costs), shard_(shard_of(spec.m, ranks, 0).count) {}

  [[nodiscard]] int peers() const { return ranks_ - 1; }
  /// The whole operation in one GEMM. The host's, too, accumulates a 16-bit gradient in f32 in memory, panel by panel,
  /// and then rounds it; a GPU's rounds what it has in registers.
  [[nodiscard]] double whole() const {
    const auto rows = static_cast<double>(spec_.m);
    if (costs_.weights_hold_up_compute) return product(rows, passing_weights(f32)) + casting();
    return product(rows, passing_weights(spec_.gradient_dtype));
  }
  /// One GEMM for this many shards.
  [[nodiscard]] double gemm(double shards) const {
    const double rows = rows_of(shards);
    return product(rows, takes_packed(rows) ? 0 : passing_weights(f32));
  }
  /// The cost of packing the weights, if GEMMs of this many shards share packed weights.
  [[nodiscard]] double packing(double shards) const {
    return takes_packed(rows_of(shards)) ? weights() * size_of(f32) / costs_.packing_bytes_per_second : 0;
  }
  /// The additional cost of a GEMM that adds to an earlier one's result: a GPU's GEMM hides the reading of its weights,
  /// but must read those sums before it can store.
  [[nodiscard]] double adding() const {
    const bool adds = kind_ == LinearKind::linear_weight_gradient && !costs_.weights_hold_up_compute;
    return adds ? passing_weights(f32) : 0;
  }
  /// The pass that rounds a pipeline's f32 sums to a 16-bit gradient.
  [[nodiscard]] double rounding() const { return casting() == 0 ? 0 : costs_.gemm_launch_seconds + casting(); }
  /// The pass before them that widens the gradient to which they are added.
  [[nodiscard]] double widening() const { return spec_.beta == 0.0F ? 0 : rounding(); }
  /// The transfer of one shard to one peer, without the latency.
  [[nodiscard]] double wire() const { return shard_bytes() / costs_.link_bytes_per_second; }
  [[nodiscard]] double latency() const { return costs_.link_latency_seconds; }
  /// Reads or writes of `tensors` shards in the device's own memory.
  [[nodiscard]] double memory(int tensors) const { return tensors * shard_bytes() / costs_.memory_bytes_per_second; }
  /// What follows the last arrival: the sum over ranks, which an all-reduce writes twice and then transfers.
  [[nodiscard]] double epilogue() const {
    switch (kind_) {
      case LinearKind::all_gather_linear:
      case LinearKind::linear_weight_gradient: return 0;
      case LinearKind::linear_reduce_scatter: return memory(ranks_ + 1);
      case LinearKind::linear_all_reduce: return memory(ranks_ + 2) + peers() * wire() + latency();
    }
    return 0;
  }
  /// All communication in sequence, before or after one GEMM. Where kernels reach peers, what is summed is loaded from
  /// them first, and an all-reduce's sums are then transferred like a gather's shards.
  [[nodiscard]] double comm() const {
    if (peers() == 0) return 0;
    const double crossing = latency() + peers() * wire();
    if (!costs_.kernels_reach_peers || !kernel_takes_rows(ranks_, row_bytes())) return crossing + epilogue();
    if (!is_reduction(kind_)) return crossing;
    const double loading = latency() + peers() * shard_bytes() / costs_.load_bytes_per_second;
    return kind_ == LinearKind::linear_all_reduce ? loading + crossing : loading;
  }

  [[nodiscard]] double sequence() const { return whole() + comm(); }

  /// The time of an algorithm that has groups.
  [[nodiscard]] double in_groups(std::string_view algorithm, int groups) const {
    if (groups == 0) return sequence();  // a team of one
    if (kind_ == LinearKind::linear_all_reduce) return in_rounds(algorithm, rounds_of(algorithm, groups));
    const double parts = static_cast<double>(groups) / peers();
    const double smallest_part = 1 / std::max(parts, 1.0);
    if (!costs_.copies_cost_compute && is_reduction(kind_) && !own_product_adds(spec_, ranks_, groups)) {
      // The GEMMs follow each other without a hop. What shows is the signal of each group and the join; of a single
      // group also the fork.
      return hops_of(std::max(groups + 1, 3), smallest_part) + leaving(groups);
    }
    const double hops = hops_of(groups + 2, smallest_part);  // one for each group, the fork and the join
    if (costs_.copies_cost_compute) {
      return hops + widening() + gemm(1) + groups * gemm(static_cast<double>(peers()) / groups) + rounding() + comm();
    }
    return hops + (is_reduction(kind_) ? between_two(groups) : arriving(groups));
  }
  /// The number of groups, up to `most`, for such an algorithm: the largest that is about as fast as the best.
  [[nodiscard]] int best_groups(std::string_view algorithm, int most) const {
    int groups = std::min(1, most);
    double best = in_groups(algorithm, groups);
    for (int c = 1; c <= most; ++c) {
      if (is_known(c)) best = std::min(best, in_groups(algorithm, c));
    }
    for (int c = 1; c <= most; ++c) {
      if (is_known(c) && in_groups(algorithm, c) <= (1 + costs_.finer_groups_may_cost) * best) groups = c;
    }
    return groups;
  }
  /// "direct": a GEMM for each peer's rows, whose results are transferred while it runs, then the own rows, and the
  /// sum. What peers send arrives when the slowest of them has computed it.
  [[nodiscard]] double straight() const {
    // The signal after each GEMM, the join, and the sums of an all-reduce.
    const int crossings = kind_ == LinearKind::linear_all_reduce ? 2 : 1;
    const double hops = (peers() + crossings) * costs_.hop_seconds + packing(1);
    if (costs_.copies_cost_compute) {
      return hops + ranks_ * gemm(1) + comm();  // stores into uncached memory cost compute, too
    }
    const double stores = shard_bytes() / costs_.store_bytes_per_second;
    const double hold_up = costs_.stores_hold_up_compute;
    const double theirs = peers() * (hold_up > 0 ? std::max(gemm(1) + hold_up * stores, stores) : gemm(1));
    const double arrived = std::max(costs_.slowest_rank * theirs, peers() * stores) + latency();
    return hops + std::max(theirs + gemm(1), arrived) + epilogue();
  }

 private:
  /// Whether the model can predict this number of groups. With tiled GEMMs, rounds that end inside a tile cost more
  /// than it predicts, so rows are only halved; so do a reduction's groups that span the end of one shard and the
  /// beginning of the next.
  [[nodiscard]] bool is_known(int groups) const {
    if (costs_.gemm_tile == 0) return true;
    if (kind_ == LinearKind::linear_all_reduce) return std::has_single_bit(static_cast<unsigned>(groups));
    return kind_ != LinearKind::linear_reduce_scatter || groups == 1 || groups % peers() == 0;
  }
  /// So many hops, and packed weights for GEMMs of parts of a shard.
  [[nodiscard]] double hops_of(int hops, double smallest_part) const {
    return hops * costs_.hop_seconds + packing(smallest_part);
  }
  [[nodiscard]] double rows_of(double shards) const {
    return std::min(static_cast<double>(shard_) * shards, static_cast<double>(spec_.m));
  }
  [[nodiscard]] bool takes_packed(double rows) const {
    return rows > 0 && rows <= costs_.packed_rows && spec_.dtype == f32 && spec_.x_layout == Layout::normal &&
           kind_ != LinearKind::linear_weight_gradient;
  }
  /// How many outputs, at full speed, take as long as a GEMM of this many rows: at least one tile, and a sixth of
  /// what the last wave of tiles leaves idle, since the libraries choose among tile sizes.
  [[nodiscard]] double multiplied(double rows) const {
    const auto columns = static_cast<double>(spec_.n);
    if (kind_ == LinearKind::linear_weight_gradient) return rows * columns;  // its rows are what it sums over
    if (costs_.gemm_tile == 0) return rows * columns;
    const double tile = costs_.gemm_tile;
    const double outputs = std::max(rows, tile) * std::max(columns, tile);
    const double tiles = std::ceil(rows / tile) * std::ceil(columns / tile);
    const double full = std::ceil(tiles / costs_.gemm_tiles_at_once) * costs_.gemm_tiles_at_once * tile * tile;
    return outputs + (full - outputs) / 6;
  }
  [[nodiscard]] double flops_per_second() const {
    if (is_float8(spec_.dtype)) {
      return takes_float8(spec_) ? costs_.gemm_float8_flops_per_second : costs_.gemm_f32_flops_per_second;
    }
    if (spec_.dtype != f32) return costs_.gemm_flops_per_second;
    return spec_.tf32 ? costs_.gemm_tf32_flops_per_second : costs_.gemm_f32_flops_per_second;
  }
  [[nodiscard]] double product(double rows, double reading) const {
    const double multiplying = 2.0 * multiplied(rows) * static_cast<double>(spec_.k) / flops_per_second();
    return costs_.gemm_launch_seconds +
           (costs_.weights_hold_up_compute ? reading + multiplying : std::max(reading, multiplying));
  }
  [[nodiscard]] double weights() const { return static_cast<double>(spec_.n) * static_cast<double>(spec_.k); }
  /// Memory traffic of each GEMM: reads the weights, or reads and writes their gradient (of dtype `gradient`).
  [[nodiscard]] double passing_weights(DType gradient) const {
    const bool adds = kind_ == LinearKind::linear_weight_gradient;
    return passing(weights() * static_cast<double>(adds ? 2 * size_of(gradient) : size_of(spec_.dtype_of_weight())));
  }
  /// Converts a gradient from f32 to 16 bits, or back.
  [[nodiscard]] double casting() const {
    if (kind_ != LinearKind::linear_weight_gradient || spec_.gradient_dtype == f32) return 0;
    const double bytes = weights() * static_cast<double>(size_of(f32) + size_of(spec_.gradient_dtype));
    return bytes / costs_.memory_bytes_per_second;
  }
  /// Memory traffic costs time unless it stays cached from one GEMM to the next.
  [[nodiscard]] double passing(double bytes) const {
    return bytes < costs_.cache_bytes ? 0 : bytes / costs_.weights_bytes_per_second;
  }
  /// The GEMMs of a group on the slowest rank: the group's rows are contiguous, but on some ranks they lie on both
  /// sides of the rank's own rows, and take two GEMMs.
  [[nodiscard]] double products(const ShardGroup& group) const {
    const double size = size_in_shards(group);
    double slowest = gemm(size) + adding();
    double first = 0;
    for (std::size_t parts = 1; parts < group.size(); ++parts) {
      first += group[parts - 1].size();
      slowest = std::max(slowest, gemm(first) + gemm(size - first) + 2 * adding());
    }
    return slowest;
  }
  /// The own shard first, then groups as they arrive: a single one in one batch, several with a push for each part.
  [[nodiscard]] double arriving(int groups) const {
    double compute = widening() + gemm(1);
    double arrived = latency() - costs_.push_gap_seconds;
    for (const ShardGroup& group : arriving_groups(peers(), groups)) {
      const std::size_t pushes = groups == 1 ? 1 : group.size();
      arrived += static_cast<double>(pushes) * costs_.push_gap_seconds + size_in_shards(group) * wire();
      compute = std::max(compute, arrived) + products(group);
    }
    return compute + rounding();
  }
  /// Groups are sent as they are computed; then come the own shard, and the sum. What peers send arrives when the
  /// slowest of them has computed it.
  [[nodiscard]] double leaving(int groups) const {
    double compute = 0;
    double arrived = 0;
    for (const ShardGroup& group : equal_groups(peers(), groups)) {
      compute += products(group);
      // Copies, each of which starts when the previous one has arrived.
      arrived = std::max(arrived, costs_.slowest_rank * compute) + static_cast<double>(group.size()) * latency() +
                size_in_shards(group) * wire();
    }
    return std::max(compute + gemm(1), arrived) + epilogue();
  }
  /// An all-reduce in these rounds.
  [[nodiscard]] double in_rounds(std::string_view algorithm, const std::vector<ShardPart>& rounds) const {
    const int count = static_cast<int>(rounds.size());
    // The fork and the join, and each round is transferred twice: the GEMMs' results, and the sums.
    const double hops = hops_of(2 * count + 2, std::min(rounds.front().size(), rounds.back().size()));
    if (costs_.copies_cost_compute) {
      double products = 0;
      for (const ShardPart& round : rounds) products += ranks_ * gemm(round.size());
      return hops + products + comm();
    }
    const bool adds = own_product_adds(spec_, ranks_, count);
    if (adds_step_by_step(algorithm)) return hops + in_rounds(rounds, true, adds);
    return hops + (adds ? between_two(count) : in_rounds(rounds, false, false));
  }
  /// Each round is a part of every rank's rows: the peers' parts are sent as they are computed, and then the sums, of
  /// this round (`at_once`) or of the previous one. If GEMMs add what the peer sent (`adds`), no sum follows.
  [[nodiscard]] double in_rounds(const std::vector<ShardPart>& rounds, bool at_once, bool adds) const {
    double compute = 0;
    double link = 0;     // when the link has transferred everything so far
    double taken = 0;    // when it has transferred the sums so far
    double arrived = 0;  // when the last round's GEMM results arrived
    // The cost of a transfer that starts at `from` and overlaps copies in the other direction, which last to `until`.
    const auto beside = [&](double from, double until, double seconds) {
      return costs_.takes_beside_pushes_cost * std::clamp(until - from, 0.0, seconds);
    };
    const auto reduce_and_take = [&](double part) {
      const double sum = adds ? 0 : costs_.gemm_launch_seconds + part * memory(ranks_ + 2);
      const double take = part * peers() * wire();
      compute = std::max(compute, arrived) + sum;
      link = std::max(link, compute) + beside(compute, link, take) + latency() + take;
      taken = link;
    };
    double before = 0;  // the size of the previous round
    for (const ShardPart& round : rounds) {
      const double part = round.size();
      double leaves = link + beside(costs_.slowest_rank * (compute + gemm(part)), taken, part * peers() * wire());
      for (int peer = 0; peer < peers(); ++peer) {
        compute += gemm(part);
        leaves = std::max(leaves, costs_.slowest_rank * compute) + latency() + part * wire();
      }
      link = leaves;
      if (!at_once && before > 0) reduce_and_take(before);
      arrived = leaves;
      if (adds) compute = std::max(compute, arrived);  // the own rows' GEMM adds to what the peer sent
      compute += gemm(part);
      before = part;
      if (!at_once) continue;
      reduce_and_take(part);
      compute += latency();  // the compute stream waits for the peers' sums before the next GEMM
    }
    if (!at_once) reduce_and_take(before);
    return link;
  }
  /// The peer's rows in parts that are sent as they are computed, then the own ones, which add what has arrived; an
  /// all-reduce sends each sum as it is computed.
  [[nodiscard]] double between_two(int parts) const {
    const double part = 1.0 / parts;
    const double crossing = latency() + part * wire();
    std::vector<double> arrived;
    double compute = 0;
    double link = 0;
    for (int i = 0; i < parts; ++i) {
      compute += gemm(part);
      link = std::max(link, costs_.slowest_rank * compute) + crossing;
      arrived.push_back(link);
    }
    for (int i = 0; i < parts; ++i) {
      compute = std::max(compute, arrived[static_cast<std::size_t>(i)]) + gemm(part);
      link = std::max(link, compute) + crossing;
    }
    return kind_ == LinearKind::linear_all_reduce ? link : compute;
  }
  /// One shard of what is transferred: of x's inputs for a gather, of y's outputs for a reduction.
  [[nodiscard]] double shard_bytes() const { return static_cast<double>(shard_) * static_cast<double>(row_bytes()); }
  [[nodiscard]] std::size_t row_bytes() const {
    return is_reduction(kind_) ? static_cast<std::size_t>(spec_.n) * size_of(spec_.dtype_of_y())
                               : static_cast<std::size_t>(spec_.k) * size_of(spec_.dtype);
  }

  LinearKind kind_;
  const LinearSpec& spec_;
  int ranks_;
  const CostTable& costs_;
  std::int64_t shard_;
};

/// An algorithm that has groups, and where its prediction is stored.
struct InGroups {
  std::string_view algorithm;
  double LinearPrediction::* seconds;
  int groups = 0;
};

}  // namespace

std::string_view name(LinearKind kind) noexcept {
  switch (kind) {
    case LinearKind::all_gather_linear: return "AllGatherLinear";
    case LinearKind::linear_reduce_scatter: return "LinearReduceScatter";
    case LinearKind::linear_all_reduce: return "LinearAllReduce";
    case LinearKind::linear_weight_gradient: return "LinearWeightGradient";
  }
  return "?";
}

int most_groups(LinearKind kind, const LinearSpec& spec, int ranks) noexcept {
  const int peers = std::max(ranks - 1, 0);
  const bool blocks_arrive = !is_reduction(kind) && spec.x_layout == Layout::transposed;
  if (blocks_arrive) return peers;
  if (kind == LinearKind::linear_all_reduce) return peers == 0 ? 0 : most_rounds;
  return peers == 1 ? groups_for_the_only_shard : peers * groups_for_each_shard;
}

LinearChoice choose(LinearKind kind, const LinearSpec& spec, int ranks, const CostTable& costs,
                    const LinearOptions& options) {
  if (ranks < 1) throw InvalidArgument(format("{} on a team of {}; allowed: 1 and more", name(kind), ranks));
  if (spec.m < 0 || spec.n < 0 || spec.k < 0) {
    throw InvalidArgument(format("{} of {}; none may be negative", name(kind), to_string(spec)));
  }
  if (const std::string why = why_impossible(kind, spec, ranks, options); !why.empty()) {
    throw InvalidArgument(format("{}: {}", name(kind), why));
  }
  const int most = most_groups(kind, spec, ranks);
  const Pieces pieces(kind, spec, ranks, costs);
  LinearChoice choice;
  choice.sms = options.sms;
  choice.leave_sms = options.leave_sms;
  LinearPrediction& predicted = choice.predicted;
  predicted.of_another = costs.of_another;
  predicted.t_gemm = pieces.whole();
  predicted.t_comm = pieces.comm();
  predicted.t_sequence = pieces.sequence();
  std::vector<InGroups> ways{{pipeline, &LinearPrediction::t_pipeline}};
  if (kind == LinearKind::linear_all_reduce) {
    ways.push_back({stepwise, &LinearPrediction::t_stepwise});
    ways.push_back({growing, &LinearPrediction::t_growing});
    ways.push_back({shrinking, &LinearPrediction::t_shrinking});
  }
  for (InGroups& way : ways) {
    const bool asked = options.groups && (options.algorithm == "auto" || options.algorithm == way.algorithm);
    way.groups = asked ? std::min(*options.groups, most) : pieces.best_groups(way.algorithm, most);
    predicted.*way.seconds = pieces.in_groups(way.algorithm, way.groups);
  }
  if (is_reduction(kind)) predicted.t_direct = ranks == 1 ? predicted.t_sequence : pieces.straight();

  const auto seconds = [&](const InGroups& way) { return predicted.*way.seconds; };
  const InGroups& fastest = *std::ranges::min_element(ways, {}, seconds);
  // By the same margin as over the sequence: a pipeline's copies delay no GEMM, whatever the peers do.
  const bool direct_wins = is_reduction(kind) && predicted.t_direct <= (1 - costs.overlap_must_gain) * seconds(fastest);
  const double overlapped = direct_wins ? predicted.t_direct : seconds(fastest);
  if (options.algorithm != "auto") {
    choice.algorithm = options.algorithm;
    choice.why = "asked for";
  } else if (options.groups) {
    choice.algorithm = fastest.algorithm;
    choice.why = "groups were asked for";
  } else if (ranks == 1) {
    choice.algorithm = sequence;
    choice.why = "a single rank has nothing to communicate";
  } else if (overlapped < (1 - costs.overlap_must_gain) * predicted.t_sequence) {
    choice.algorithm = direct_wins ? direct : fastest.algorithm;
    choice.why = "overlap is predicted to win";
  } else {
    choice.algorithm = sequence;
    choice.why = costs.copies_cost_compute ? "copies cost the cores that compute: there is nothing to hide behind"
                                           : "overlap is predicted to gain too little";
  }
  const auto chosen = std::ranges::find(ways, choice.algorithm, &InGroups::algorithm);
  if (chosen != ways.end()) choice.groups = chosen->groups;
  return choice;
}

std::string to_string(const LinearChoice& choice) {
  const LinearPrediction& p = choice.predicted;
  const auto if_any = [](std::string_view algorithm, double seconds) {
    return seconds > 0 ? format(", {} {:.1f} us", algorithm, seconds * 1e6) : "";
  };
  return format(
      "algorithm: {}{} ({})\npredicted{}: t_gemm {:.1f} us, t_comm {:.1f} us, sequence {:.1f} us, pipeline {:.1f} "
      "us{}{}{}{}, ideal {:.1f} us",
      choice.algorithm, choice.groups > 0 ? format(" in {} group{}", choice.groups, choice.groups == 1 ? "" : "s") : "",
      choice.why, p.of_another == nullptr ? "" : format(" by the costs of {}, not of this device", p.of_another),
      p.t_gemm * 1e6, p.t_comm * 1e6, p.t_sequence * 1e6, p.t_pipeline * 1e6, if_any("stepwise", p.t_stepwise),
      if_any("growing", p.t_growing), if_any("shrinking", p.t_shrinking), if_any("direct", p.t_direct),
      p.t_ideal() * 1e6);
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/format.hpp"
#include "device/attention_check.hpp"
#include "device/host/host_crew.hpp"
#include "device/host/host_elementwise.hpp"
#include "device/host/host_sgemm.hpp"
#include "device/host/host_stream.hpp"
#include "device/host/vector_isa.hpp"
#include "device/host/vector_math.hpp"
#include "device/host/workspace.hpp"

namespace tandem {
namespace {

// Blocks of scores: 64 KiB, which stay in the L2 cache with the block's operands.
constexpr std::int64_t query_block = 64;
constexpr std::int64_t key_block = 256;
// Attention of at least this many operations is worth waking a worker for, and parts of it other threads.
constexpr double heavy_flops = 25e6;

constexpr float nothing = -std::numeric_limits<float>::infinity();

// ---- Loops over a row of scores. Sums run in 8 lanes, so that they are vectorised. ----

constexpr int lanes = 8;

struct Largest {
  [[gnu::always_inline]] static inline void loop(const float* x, std::int64_t n, float* largest) {
    std::array<float, lanes> most;
    most.fill(*largest);
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      for (int l = 0; l < lanes; ++l) {
        const float value = x[i + l];
        most[static_cast<std::size_t>(l)] =
            value > most[static_cast<std::size_t>(l)] ? value : most[static_cast<std::size_t>(l)];
      }
    }
    for (; i < n; ++i) most[0] = x[i] > most[0] ? x[i] : most[0];
    for (const float value : most) *largest = value > *largest ? value : *largest;
  }
};

/// x = exp(x - shift), and adds them to `sum`; no x is above the shift.
struct Exponentials {
  [[gnu::always_inline]] static inline void loop(float* x, std::int64_t n, float shift, float* sum) {
    std::array<float, lanes> sums{};
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      for (int l = 0; l < lanes; ++l) {
        const float value = exp_negative(x[i + l] - shift);
        x[i + l] = value;
        sums[static_cast<std::size_t>(l)] += value;
      }
    }
    for (; i < n; ++i) {
      x[i] = exp_negative(x[i] - shift);
      sums[0] += x[i];
    }
    for (const float value : sums) *sum += value;
  }
};

struct Scale {
  [[gnu::always_inline]] static inline void loop(float* x, std::int64_t n, float by) {
    for (std::int64_t i = 0; i < n; ++i) x[i] *= by;
  }
};

/// The gradient of scaled scores: p becomes the probability, and dp the gradient of the unscaled score.
struct ScoreGradients {
  [[gnu::always_inline]] static inline void loop(float* p, float* dp, std::int64_t n, float lse, float delta,
                                                 float scale) {
    for (std::int64_t i = 0; i < n; ++i) {
      // Rounding may put a score that is nearly all of its sum above the sum.
      const float below = p[i] - lse;
      p[i] = exp_negative(below < 0.0F ? below : 0.0F);
      dp[i] = p[i] * (dp[i] - delta) * scale;
    }
  }
};

struct ScaleAndAdd {
  [[gnu::always_inline]] static inline void loop(float* sum, const float* x, std::int64_t n, float scale,
                                                 float weight) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) sum[i] = sum[i] * scale + x[i] * weight;
  }
};

struct Range {
  std::int64_t begin;
  std::int64_t end;

  [[nodiscard]] std::int64_t count() const noexcept { return end - begin; }
};

/// Rows of a tensor [tokens, batch, heads, dim] for one batch and head.
struct Rows {
  const std::byte* data;
  std::int64_t pitch;  ///< elements from one token to the next
  std::int64_t dim;
  DType dtype;
};

Rows rows_of(const void* tensor, std::int64_t batch, std::int64_t heads, std::int64_t dim, DType dtype, std::int64_t b,
             std::int64_t h) noexcept {
  const auto offset = static_cast<std::size_t>((b * heads + h) * dim) * size_of(dtype);
  return {static_cast<const std::byte*>(tensor) + offset, batch * heads * dim, dim, dtype};
}

void load(const Rows& rows, Range range, float* to) {
  const std::size_t step = static_cast<std::size_t>(rows.pitch) * size_of(rows.dtype);
  const std::byte* from = rows.data + static_cast<std::size_t>(range.begin) * step;
  for (std::int64_t r = 0; r < range.count(); ++r, from += step) widen(rows.dtype, from, to + r * rows.dim, rows.dim);
}

/// Rounds dense rows into a tensor, whose rows `rows` describes.
void store(const float* from, Range range, const Rows& rows) {
  const std::size_t step = static_cast<std::size_t>(rows.pitch) * size_of(rows.dtype);
  auto* to = const_cast<std::byte*>(rows.data) + static_cast<std::size_t>(range.begin) * step;
  for (std::int64_t r = 0; r < range.count(); ++r, to += step) {
    finish_row(from + r * rows.dim, nullptr, to, rows.dtype, nullptr, 0.0F, Activation::none, rows.dim);
  }
}

}  // namespace

class HostAttention::Work {
 public:
  Work(const AttentionSpec& spec, HostGemmLibrary library, HostCrew& crew)
      : spec_(spec), library_(library), crew_(crew) {
    const auto d = static_cast<std::size_t>(spec.head_dim);
    const auto dv = static_cast<std::size_t>(spec.dim_of_values());
    const auto keys = static_cast<std::size_t>(spec.keys);
    // Any member of the crew may help, and needs its own panels.
    panels_.resize(static_cast<std::size_t>(threads() > 1 ? crew.size() : 1));
    for (Panels& panels : panels_) {
      panels.q = make_workspace<float>(query_block * d);
      panels.k = make_workspace<float>(key_block * d);
      panels.v = make_workspace<float>(key_block * dv);
      panels.scores = make_workspace<float>(query_block * key_block);
      panels.out = make_workspace<float>(query_block * dv);
      if (library == HostGemmLibrary::builtin) panels.kernel = make_workspace<float>(builtin_gemm_workspace<float>());
      if (!spec.gradients) continue;
      panels.grad_out = make_workspace<float>(query_block * dv);
      panels.grad_scores = make_workspace<float>(query_block * key_block);
      panels.dq = make_workspace<float>(query_block * d);
      panels.dk = make_workspace<float>(keys * d);
      panels.dv = make_workspace<float>(keys * dv);
    }
  }

  [[nodiscard]] double flops() const noexcept {
    return 2.0 * static_cast<double>(spec_.batch * spec_.heads) * static_cast<double>(spec_.queries) *
           static_cast<double>(spec_.keys) * static_cast<double>(spec_.head_dim + spec_.dim_of_values());
  }
  [[nodiscard]] int threads() const noexcept {
    return static_cast<int>(std::clamp(flops() / heavy_flops, 1.0, static_cast<double>(crew_.size())));
  }
  [[nodiscard]] TaskWeight weight() const noexcept {
    return flops() >= heavy_flops ? TaskWeight::heavy : TaskWeight::light;
  }

  void forward(const AttentionOperands& operands) const {
    const std::int64_t blocks = (spec_.queries + query_block - 1) / query_block;
    do_parts(spec_.batch * spec_.heads * blocks, [&](std::int64_t part, const Panels& panels) {
      const std::int64_t first = part % blocks * query_block;
      const std::int64_t head = part / blocks;
      forward(operands, head / spec_.heads, head % spec_.heads, {first, std::min(first + query_block, spec_.queries)},
              panels);
    });
  }

  /// The heads that share keys and values are one part, so that their sums have one order.
  void backward(const AttentionGradientOperands& operands) const {
    do_parts(spec_.batch * spec_.kv_heads, [&](std::int64_t part, const Panels& panels) {
      backward(operands, part / spec_.kv_heads, part % spec_.kv_heads, panels);
    });
  }

 private:
  /// One member's scratch memory, dense.
  struct Panels {
    Workspace<float> q, k, v, scores, out, kernel;
    Workspace<float> grad_out, grad_scores, dq;
    Workspace<float> dk, dv;  ///< of all keys
  };

  template <typename Part> void do_parts(std::int64_t parts, const Part& part) const {
    if (panels_.size() == 1) {
      for (std::int64_t i = 0; i < parts; ++i) part(i, panels_.front());
      return;
    }
    // Many small parts are handed out several at a time.
    constexpr std::int64_t most = 1 << 20;
    const std::int64_t at_once = (parts + most - 1) / most;
    crew_.run(static_cast<int>((parts + at_once - 1) / at_once), [&](int turn, int member) {
      const std::int64_t end = std::min((turn + 1) * at_once, parts);
      for (std::int64_t i = turn * at_once; i < end; ++i) part(i, panels_[static_cast<std::size_t>(member)]);
    });
  }

  [[nodiscard]] Rows queries(const void* tensor, std::int64_t dim, std::int64_t b, std::int64_t h) const {
    return rows_of(tensor, spec_.batch, spec_.heads, dim, spec_.dtype, b, h);
  }
  [[nodiscard]] Rows keys(const void* tensor, std::int64_t dim, std::int64_t b, std::int64_t h) const {
    return rows_of(tensor, spec_.batch, spec_.kv_heads, dim, spec_.dtype, b, h);
  }
  /// Where this head's statistics begin.
  [[nodiscard]] std::int64_t row_of(std::int64_t b, std::int64_t h) const {
    return (b * spec_.heads + h) * spec_.queries;
  }

  /// The keys that some of these queries see.
  [[nodiscard]] Range seen_by(Range queries) const {
    const std::int64_t begin = spec_.band.left ? std::max<std::int64_t>(queries.begin - *spec_.band.left, 0) : 0;
    const bool bounded = spec_.band.right && *spec_.band.right < spec_.keys - queries.end;
    return {begin, bounded ? queries.end + *spec_.band.right : spec_.keys};
  }
  /// The part of a block of keys that one query sees, counted from the block's first; may be empty.
  [[nodiscard]] Range seen_by(std::int64_t query, Range block) const {
    const Range seen = seen_by({query, query + 1});
    const std::int64_t begin = std::clamp(seen.begin, block.begin, block.end) - block.begin;
    return {begin, std::max(begin, std::clamp(seen.end, block.begin, block.end) - block.begin)};
  }

  void multiply(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                const float* a, const float* b, float beta, float* c, const Panels& panels) const {
    host_sgemm(library_, transpose_a, transpose_b, m, n, k, alpha, a, transpose_a ? m : k, b, transpose_b ? k : n, beta,
               c, n, panels.kernel.get());
  }

  void forward(const AttentionOperands& operands, std::int64_t b, std::int64_t h, Range range,
               const Panels& panels) const {
    const std::int64_t kv_head = h / (spec_.heads / spec_.kv_heads);
    const std::int64_t d = spec_.head_dim;
    const std::int64_t dv = spec_.dim_of_values();
    load(queries(operands.q, d, b, h), range, panels.q.get());
    std::fill_n(panels.out.get(), range.count() * dv, 0.0F);
    std::array<float, query_block> most;
    std::array<float, query_block> sums{};
    most.fill(nothing);
    const Range seen = seen_by(range);
    for (std::int64_t first = seen.begin; first < seen.end; first += key_block) {
      const Range block{first, std::min(first + key_block, seen.end)};
      load(keys(operands.k, d, b, kv_head), block, panels.k.get());
      load(keys(operands.v, dv, b, kv_head), block, panels.v.get());
      multiply(false, true, range.count(), block.count(), d, spec_.scale_of_scores(), panels.q.get(), panels.k.get(),
               0.0F, panels.scores.get(), panels);
      for (std::int64_t r = 0; r < range.count(); ++r) {
        const auto i = static_cast<std::size_t>(r);
        float* const row = panels.scores.get() + r * block.count();
        const Range visible = seen_by(range.begin + r, block);
        std::fill(row, row + visible.begin, 0.0F);
        std::fill(row + visible.end, row + block.count(), 0.0F);
        if (visible.count() == 0) continue;
        const float before = most[i];
        run_vectorised<Largest>(static_cast<const float*>(row + visible.begin), visible.count(), &most[i]);
        if (most[i] > before && before != nothing) {
          const float shrink = std::exp(before - most[i]);
          sums[i] *= shrink;
          run_vectorised<Scale>(panels.out.get() + r * dv, dv, shrink);
        }
        run_vectorised<Exponentials>(row + visible.begin, visible.count(), most[i], &sums[i]);
      }
      multiply(false, false, range.count(), dv, block.count(), 1.0F, panels.scores.get(), panels.v.get(), 1.0F,
               panels.out.get(), panels);
    }
    for (std::int64_t r = 0; r < range.count(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      run_vectorised<Scale>(panels.out.get() + r * dv, dv, 1.0F / sums[i]);
      operands.lse[row_of(b, h) + range.begin + r] = most[i] + std::log(sums[i]);
    }
    store(panels.out.get(), range, queries(operands.out, dv, b, h));
  }

  void backward(const AttentionGradientOperands& operands, std::int64_t b, std::int64_t kv_head,
                const Panels& panels) const {
    const std::int64_t group = spec_.heads / spec_.kv_heads;
    const std::int64_t d = spec_.head_dim;
    const std::int64_t dv = spec_.dim_of_values();
    std::fill_n(panels.dk.get(), spec_.keys * d, 0.0F);
    std::fill_n(panels.dv.get(), spec_.keys * dv, 0.0F);
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      for (std::int64_t first = 0; first < spec_.queries; first += query_block) {
        backward(operands, b, h, kv_head, {first, std::min(first + query_block, spec_.queries)}, panels);
      }
    }
    store(panels.dk.get(), {0, spec_.keys}, keys(operands.dk, d, b, kv_head));
    store(panels.dv.get(), {0, spec_.keys}, keys(operands.dv, dv, b, kv_head));
  }

  /// dQ of a block of queries, and what it adds to dK and dV.
  void backward(const AttentionGradientOperands& operands, std::int64_t b, std::int64_t h, std::int64_t kv_head,
                Range range, const Panels& panels) const {
    const std::int64_t d = spec_.head_dim;
    const std::int64_t dv = spec_.dim_of_values();
    load(queries(operands.q, d, b, h), range, panels.q.get());
    load(queries(operands.out, dv, b, h), range, panels.out.get());
    load(queries(operands.grad_out, dv, b, h), range, panels.grad_out.get());
    std::array<float, query_block> deltas{};  // of each row, Σ out · grad_out
    for (std::int64_t r = 0; r < range.count(); ++r) {
      for (std::int64_t c = 0; c < dv; ++c) {
        deltas[static_cast<std::size_t>(r)] +=
            panels.out[static_cast<std::size_t>(r * dv + c)] * panels.grad_out[static_cast<std::size_t>(r * dv + c)];
      }
    }
    std::fill_n(panels.dq.get(), range.count() * d, 0.0F);
    const Range seen = seen_by(range);
    for (std::int64_t first = seen.begin; first < seen.end; first += key_block) {
      const Range block{first, std::min(first + key_block, seen.end)};
      const std::int64_t rows = range.count();
      const std::int64_t columns = block.count();
      load(keys(operands.k, d, b, kv_head), block, panels.k.get());
      load(keys(operands.v, dv, b, kv_head), block, panels.v.get());
      multiply(false, true, rows, columns, d, spec_.scale_of_scores(), panels.q.get(), panels.k.get(), 0.0F,
               panels.scores.get(), panels);
      multiply(false, true, rows, columns, dv, 1.0F, panels.grad_out.get(), panels.v.get(), 0.0F,
               panels.grad_scores.get(), panels);
      for (std::int64_t r = 0; r < rows; ++r) {
        const Range visible = seen_by(range.begin + r, block);
        for (float* const row : {panels.scores.get() + r * columns, panels.grad_scores.get() + r * columns}) {
          std::fill(row, row + visible.begin, 0.0F);
          std::fill(row + visible.end, row + columns, 0.0F);
        }
        run_vectorised<ScoreGradients>(panels.scores.get() + r * columns + visible.begin,
                                       panels.grad_scores.get() + r * columns + visible.begin, visible.count(),
                                       operands.lse[row_of(b, h) + range.begin + r],
                                       deltas[static_cast<std::size_t>(r)], spec_.scale_of_scores());
      }
      multiply(true, false, columns, dv, rows, 1.0F, panels.scores.get(), panels.grad_out.get(), 1.0F,
               panels.dv.get() + first * dv, panels);
      multiply(true, false, columns, d, rows, 1.0F, panels.grad_scores.get(), panels.q.get(), 1.0F,
               panels.dk.get() + first * d, panels);
      multiply(false, false, rows, d, columns, 1.0F, panels.grad_scores.get(), panels.k.get(), 1.0F, panels.dq.get(),
               panels);
    }
    store(panels.dq.get(), range, queries(operands.dq, d, b, h));
  }

  const AttentionSpec spec_;
  const HostGemmLibrary library_;
  HostCrew& crew_;
  std::vector<Panels> panels_;  // one per member
};

HostAttention::HostAttention(const AttentionSpec& spec, HostGemmLibrary library, GemmChoice choice, HostCrew& crew,
                             const HostWorkers& workers)
    : Attention((check_attention(spec), spec)),
      work_(std::make_shared<const Work>(this->spec(), library, crew)),
      description_(format("blocks of {} queries and {} keys, GEMMs by {}{}", query_block, key_block,
                          describe_gemm_library(library, choice),
                          work_->threads() > 1 ? format(", on {} threads", work_->threads()) : std::string())),
      workers_(workers) {}

void HostAttention::forward(StreamRef stream, const AttentionOperands& operands) {
  if (!check_forward(spec(), operands)) return;
  HostStream::from(stream, workers_).enqueue([work = work_, operands] { work->forward(operands); }, work_->weight());
}

void HostAttention::backward(StreamRef stream, const AttentionGradientOperands& operands) {
  if (!check_backward(spec(), operands)) return;
  HostStream::from(stream, workers_).enqueue([work = work_, operands] { work->backward(operands); }, work_->weight());
}

void merge_now(const AttentionMerge& merge) {
  const MergedRows& rows = merge.rows;
  const auto at = [&merge](const void* tensor, DType dtype, std::int64_t row) {
    return static_cast<const std::byte*>(tensor) + static_cast<std::size_t>(row * merge.dim) * size_of(dtype);
  };
  std::vector<float> sum(static_cast<std::size_t>(merge.dim));
  std::vector<float> part(static_cast<std::size_t>(merge.dim));
  const std::int64_t all_heads = merge.batch * merge.heads;
  for (std::int64_t i = 0; i < rows.count * all_heads; ++i) {
    const std::int64_t token = i / all_heads;
    const std::int64_t head = i % all_heads;
    const std::int64_t row = rows.first * all_heads + i;
    widen(merge.before_dtype, at(merge.before, merge.before_dtype, row), sum.data(), merge.dim);
    widen(merge.dtype, at(merge.part, merge.dtype, rows.part_first * all_heads + i), part.data(), merge.dim);
    float scale = 1.0F;
    float weight = 1.0F;
    if (merge.lse != nullptr) {
      float& lse = merge.lse[head * rows.tokens + rows.first + token];
      const float added = merge.lse_part[head * rows.part_tokens + rows.part_first + token];
      // From the difference alone, so that the weights add up to 1 however large the logarithms are.
      const float smaller = std::exp(-std::abs(lse - added));
      const float larger_weight = 1.0F / (1.0F + smaller);
      scale = lse < added ? smaller * larger_weight : larger_weight;
      weight = lse < added ? larger_weight : smaller * larger_weight;
      lse = std::max(lse, added) + std::log1p(smaller);
    }
    run_vectorised<ScaleAndAdd>(sum.data(), static_cast<const float*>(part.data()), merge.dim, scale, weight);
    finish_row(sum.data(), nullptr, const_cast<std::byte*>(at(merge.after, merge.after_dtype, row)), merge.after_dtype,
               nullptr, 0.0F, Activation::none, merge.dim);
  }
}

}  // namespace tandem

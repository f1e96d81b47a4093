// SPDX-License-Identifier: Apache-2.0
#include "support/attention_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace tandem::testing {
namespace {

constexpr double unit = 0x1p-24;  // of fp32

/// The cost of rounding a value to a dtype, whose smallest normal number bounds that of smaller ones.
double rounding(DType dtype, double value) {
  const double smallest = dtype == f16 ? 0x1p-14 : 0x1p-126;
  return epsilon(dtype) * std::max(std::abs(value), smallest);
}

AttentionOracle::Values zeros(std::int64_t count) {
  const std::vector<double> none(static_cast<std::size_t>(count));
  return {none, none, none};
}

}  // namespace

/// One head of one batch, whose elements stand at `index(token, heads, dim, …)`.
struct AttentionOracle::Head {
  std::int64_t b;
  std::int64_t h;
  std::int64_t kv;

  std::vector<double> p;      // [queries, keys], 0 where a query does not see a key
  std::vector<double> p_off;  // how far p may be off
};

AttentionOracle::AttentionOracle(const AttentionSpec& spec, std::span<const double> q, std::span<const double> k,
                                 std::span<const double> v, std::span<const double> grad_out)
    : out(zeros(spec.queries * spec.batch * spec.heads * spec.dim_of_values())),
      lse(zeros(spec.batch * spec.heads * spec.queries)),
      dq(zeros(spec.queries * spec.batch * spec.heads * spec.head_dim)),
      dk(zeros(spec.keys * spec.batch * spec.kv_heads * spec.head_dim)),
      dv(zeros(spec.keys * spec.batch * spec.kv_heads * spec.dim_of_values())),
      spec_(spec),
      q_(q),
      k_(k),
      v_(v),
      grad_out_(grad_out) {
  for (std::int64_t b = 0; b < spec.batch; ++b) {
    for (std::int64_t h = 0; h < spec.heads; ++h) {
      const auto scores = static_cast<std::size_t>(spec.queries * spec.keys);
      Head head{b, h, h / (spec.heads / spec.kv_heads), std::vector<double>(scores), std::vector<double>(scores)};
      const std::int64_t d = spec.head_dim;
      for (std::int64_t i = 0; i < spec.queries; ++i) {
        const double* const query = &q[static_cast<std::size_t>(((i * spec.batch + b) * spec.heads + h) * d)];
        double* const p = &head.p[static_cast<std::size_t>(i * spec.keys)];
        double* const off = &head.p_off[static_cast<std::size_t>(i * spec.keys)];
        const std::int64_t begin = spec.band.left ? std::max<std::int64_t>(i - *spec.band.left, 0) : 0;
        const bool bounded = spec.band.right && *spec.band.right < spec.keys - i;
        const std::int64_t end = bounded ? i + *spec.band.right + 1 : spec.keys;
        double most = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = begin; j < end; ++j) {
          const double* const key = &k[static_cast<std::size_t>(((j * spec.batch + b) * spec.kv_heads + head.kv) * d)];
          double dot = 0;
          double size = 0;
          for (std::int64_t c = 0; c < d; ++c) {
            dot += query[c] * key[c];
            size += std::abs(query[c] * key[c]);
          }
          p[j] = static_cast<double>(spec.scale_of_scores()) * dot;
          off[j] = static_cast<double>(spec.scale_of_scores()) * size * (4 + std::sqrt(static_cast<double>(d)));
          most = std::max(most, p[j]);
        }
        double sum = 0;
        double furthest = 0;
        for (std::int64_t j = begin; j < end; ++j) sum += std::exp(p[j] - most);
        const double total = most + std::log(sum);
        for (std::int64_t j = begin; j < end; ++j) {
          p[j] = std::exp(p[j] - total);
          furthest = std::max(furthest, off[j]);
        }
        for (std::int64_t j = begin; j < end; ++j) {
          off[j] = p[j] * (2 * epsilon(spec.dtype) + unit * (8 + furthest)) + 0x1p-126;
        }
        const auto row = static_cast<std::size_t>((b * spec.heads + h) * spec.queries + i);
        lse.value[row] = total;
        lse.allowed[row] = unit * (8 + furthest + 2 * std::abs(total));
      }
      forward(head);
      if (!grad_out.empty()) backward(head);
    }
  }
  for (Values* const values : {&out, &dq, &dk, &dv}) {
    for (std::size_t i = 0; i < values->value.size(); ++i) {
      values->allowed[i] += rounding(spec.dtype, values->value[i]);
    }
  }
}

void AttentionOracle::forward(const Head& head) {
  const std::int64_t dim = spec_.dim_of_values();
  for (std::int64_t i = 0; i < spec_.queries; ++i) {
    const auto row = static_cast<std::size_t>(((i * spec_.batch + head.b) * spec_.heads + head.h) * dim);
    for (std::int64_t j = 0; j < spec_.keys; ++j) {
      const auto at = static_cast<std::size_t>(i * spec_.keys + j);
      if (head.p[at] == 0) continue;
      const double* const value =
          &v_[static_cast<std::size_t>(((j * spec_.batch + head.b) * spec_.kv_heads + head.kv) * dim)];
      for (std::int64_t c = 0; c < dim; ++c) {
        const std::size_t e = row + static_cast<std::size_t>(c);
        out.value[e] += head.p[at] * value[c];
        out.magnitude[e] += head.p[at] * std::abs(value[c]);
        out.allowed[e] += head.p_off[at] * std::abs(value[c]);
      }
    }
  }
}

void AttentionOracle::backward(const Head& head) {
  const std::int64_t d = spec_.head_dim;
  const std::int64_t dim = spec_.dim_of_values();
  const double scale = static_cast<double>(spec_.scale_of_scores());
  const double eps = epsilon(spec_.dtype);
  for (std::int64_t i = 0; i < spec_.queries; ++i) {
    const auto query = static_cast<std::size_t>((i * spec_.batch + head.b) * spec_.heads + head.h);
    const std::size_t out_row = query * static_cast<std::size_t>(dim);
    const std::size_t q_row = query * static_cast<std::size_t>(d);
    double delta = 0;
    double delta_size = 0;
    double delta_off = 0;  // `out` is off by what its probabilities are, and was rounded
    for (std::int64_t c = 0; c < dim; ++c) {
      const std::size_t e = out_row + static_cast<std::size_t>(c);
      delta += out.value[e] * grad_out_[e];
      delta_size += out.magnitude[e] * std::abs(grad_out_[e]);
      delta_off += (out.allowed[e] + eps * std::abs(out.value[e])) * std::abs(grad_out_[e]);
    }
    for (std::int64_t j = 0; j < spec_.keys; ++j) {
      const auto at = static_cast<std::size_t>(i * spec_.keys + j);
      const double p = head.p[at];
      if (p == 0) continue;
      const auto key = static_cast<std::size_t>((j * spec_.batch + head.b) * spec_.kv_heads + head.kv);
      const std::size_t v_row = key * static_cast<std::size_t>(dim);
      const std::size_t k_row = key * static_cast<std::size_t>(d);
      double dp = 0;
      double dp_size = 0;
      for (std::int64_t c = 0; c < dim; ++c) {
        const auto column = static_cast<std::size_t>(c);
        const double grad = grad_out_[out_row + column];
        dp += grad * v_[v_row + column];
        dp_size += std::abs(grad * v_[v_row + column]);
        dv.value[v_row + column] += p * grad;
        dv.magnitude[v_row + column] += p * std::abs(grad);
        dv.allowed[v_row + column] += head.p_off[at] * std::abs(grad);
      }
      const double ds = p * (dp - delta) * scale;
      // Kernels round ds before they multiply it.
      const double off =
          scale * (head.p_off[at] * std::abs(dp - delta) + p * (16 * unit * (dp_size + delta_size) + delta_off)) +
          eps * std::abs(ds);
      for (std::int64_t c = 0; c < d; ++c) {
        const std::size_t qe = q_row + static_cast<std::size_t>(c);
        const std::size_t ke = k_row + static_cast<std::size_t>(c);
        dq.value[qe] += ds * k_[ke];
        dq.magnitude[qe] += std::abs(ds * k_[ke]);
        dq.allowed[qe] += off * std::abs(k_[ke]);
        dk.value[ke] += ds * q_[qe];
        dk.magnitude[ke] += std::abs(ds * q_[qe]);
        dk.allowed[ke] += off * std::abs(q_[qe]);
      }
    }
  }
}

}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#include "language_model/arithmetic.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <thread>

#include "language_model/random.hpp"

namespace tandem::language_model {
namespace {

Numbers squares(const Numbers& values) {
  Numbers out(values.size());
  std::transform(values.begin(), values.end(), out.begin(), squared);
  return out;
}

Numbers magnitudes(const Numbers& values) {
  Numbers out(values.size());
  std::transform(values.begin(), values.end(), out.begin(), [](double x) { return std::abs(x); });
  return out;
}

Numbers roots(const Numbers& values) {
  Numbers out(values.size());
  std::transform(values.begin(), values.end(), out.begin(), [](double x) { return std::sqrt(x); });
  return out;
}

Numbers transposed(const Numbers& values, std::size_t rows, std::size_t columns) {
  Numbers out(values.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) out[c * rows + r] = values[r * columns + c];
  }
  return out;
}

bool is_exact(const Matrix& a) {
  return std::all_of(a.variance.begin(), a.variance.end(), [](double v) { return v == 0; });
}

/// Calls body(begin, end) for parts of [0, count), on as many cores as there are enough `operations` for.
void in_parallel(std::size_t count, std::size_t operations, const std::function<void(std::size_t, std::size_t)>& body) {
  constexpr std::size_t worth_a_thread = 100'000;
  const std::size_t cores = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 16);
  const std::size_t parts = std::min(cores, operations / worth_a_thread);
  if (parts < 2) return body(0, count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < parts; ++i) {
    threads.emplace_back([&body, begin = count * i / parts, end = count * (i + 1) / parts] { body(begin, end); });
  }
  for (std::thread& thread : threads) thread.join();
}

/// The operands of out[m, n] += a[m, k] · b[k, n].
struct Product {
  const double* a;
  const double* b;
  double* out;
  std::size_t m, n, k;
};

/// Rows [i, i + 4) of `out`, as far as they exist. Four rows of a and four of b at a time, so that each loaded value is
/// used four times; `tile` columns of four rows stay in the L1 cache.
[[gnu::always_inline]] inline void add_four_rows(const Product& p, std::size_t i) {
  constexpr std::size_t tile = 256;
  const std::size_t rows = std::min<std::size_t>(4, p.m - i);
  for (std::size_t first = 0; first < p.n; first += tile) {
    const std::size_t count = std::min(tile, p.n - first);
    std::array<std::array<double, tile>, 4> sums{};
    for (std::size_t l = 0; l < p.k; l += 4) {
      std::array<std::array<double, 4>, 4> factors{};  // 0 for rows that do not exist
      std::array<const double*, 4> other{};
      for (std::size_t u = 0; u < 4; ++u) {
        other[u] = p.b + std::min(l + u, p.k - 1) * p.n + first;
        for (std::size_t r = 0; r < rows && l + u < p.k; ++r) factors[r][u] = p.a[(i + r) * p.k + l + u];
      }
      for (std::size_t j = 0; j < count; ++j) {
        for (std::size_t r = 0; r < 4; ++r) {
          for (std::size_t u = 0; u < 4; ++u) sums[r][j] += factors[r][u] * other[u][j];
        }
      }
    }
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t j = 0; j < count; ++j) p.out[(i + r) * p.n + first + j] += sums[r][j];
    }
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void add_four_rows_on_avx2(const Product& p, std::size_t i) { add_four_rows(p, i); }
#endif
void add_four_rows_anywhere(const Product& p, std::size_t i) { add_four_rows(p, i); }

void add_product(const Numbers& a, const Numbers& b, std::size_t m, std::size_t n, std::size_t k, Numbers& out) {
  const Product product{a.data(), b.data(), out.data(), m, n, k};
  auto* add_rows = &add_four_rows_anywhere;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) add_rows = &add_four_rows_on_avx2;
#endif
  in_parallel((m + 3) / 4, m * n * k, [&](std::size_t begin, std::size_t end) {
    for (std::size_t part = begin; part < end; ++part) add_rows(product, 4 * part);
  });
}

}  // namespace

Matrix transposed(const Matrix& a) {
  Matrix out;
  out.rows = a.columns;
  out.columns = a.rows;
  out.value = transposed(a.value, a.rows, a.columns);
  out.variance = transposed(a.variance, a.rows, a.columns);
  return out;
}

Arithmetic::Arithmetic(DType dtype, std::optional<std::uint64_t> key)
    : rounding_(squared(epsilon(f32))), stored_(squared(epsilon(dtype))), key_(key) {}

Matrix Arithmetic::product(const Matrix& a, const Matrix& b, Out out) {
  const std::size_t m = a.rows;
  const std::size_t n = b.columns;
  const std::size_t k = a.columns;
  Matrix c(m, n);
  add_product(a.value, b.value, m, n, k, c.value);

  const double rounding = static_cast<double>(k) * rounding_ + stored_;
  const Numbers a_squares = squares(a.value);
  Numbers a_variance = a.variance;
  for (std::size_t i = 0; i < a_variance.size(); ++i) a_variance[i] += rounding * a_squares[i];
  add_product(a_variance, squares(b.value), m, n, k, c.variance);
  const bool a_exact = is_exact(a);
  const bool b_exact = is_exact(b);
  if (!b_exact) add_product(a_squares, b.variance, m, n, k, c.variance);
  if (out == Out::narrow) {
    store(c);
    return c;
  }
  Numbers drift(m * n, 0.0);
  if (!a_exact) add_product(roots(a.variance), magnitudes(b.value), m, n, k, drift);
  if (!b_exact) add_product(magnitudes(a.value), roots(b.variance), m, n, k, drift);
  for (std::size_t i = 0; i < drift.size(); ++i) c.variance[i] += drift_variance(drift[i]);
  settle(c);
  return c;
}

Matrix Arithmetic::sum(const Matrix& a, const Matrix& b) {
  Matrix out = a;
  for (std::size_t i = 0; i < a.value.size(); ++i) {
    out.value[i] += b.value[i];
    out.variance[i] += b.variance[i];
  }
  store(out);
  return out;
}

void Arithmetic::add_bias(Matrix& a, std::span<const float> bias) {
  for (std::size_t i = 0; i < a.value.size(); ++i) a.value[i] += static_cast<double>(bias[i % a.columns]);
  store(a);
}

Matrix Arithmetic::column_sums(const Matrix& a) {
  Matrix ones(1, a.rows);
  std::fill(ones.value.begin(), ones.value.end(), 1.0);
  return product(ones, a, Out::f32);
}

void Arithmetic::store(Matrix& a) {
  for (std::size_t i = 0; i < a.value.size(); ++i) a.variance[i] += stored_ * squared(a.value[i]);
  settle(a);
}

void Arithmetic::settle(Matrix& a) {
  if (!key_) return;
  for (std::size_t i = 0; i < a.value.size(); ++i) a.value[i] += coin() * std::sqrt(a.variance[i]);
  std::fill(a.variance.begin(), a.variance.end(), 0.0);
}

Arithmetic::Shared Arithmetic::shared(double variance) {
  if (!key_) return {.variance = variance};
  return {.moved = coin() * std::sqrt(variance)};
}

double Arithmetic::coin() { return (random_bits(*key_, tossed_++) & 1) == 0 ? -1 : 1; }

}  // namespace tandem::language_model

// SPDX-License-Identifier: Apache-2.0
#include "language_model/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

namespace tandem::language_model {
namespace {

using Numbers = std::vector<double>;

constexpr double deviations = 8;

/// Values, and the variances of the errors that they may have.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  Numbers value;
  Numbers variance;

  Matrix() = default;
  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), value(r * c, 0.0), variance(r * c, 0.0) {}
  Matrix(std::size_t r, std::size_t c, std::span<const float> exact) : Matrix(r, c) {
    std::copy(exact.begin(), exact.end(), value.begin());
  }
};

double squared(double x) { return x * x; }

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

Matrix transposed(const Matrix& a) {
  Matrix out;
  out.rows = a.columns;
  out.columns = a.rows;
  out.value = transposed(a.value, a.rows, a.columns);
  out.variance = transposed(a.variance, a.rows, a.columns);
  return out;
}

/// Calls body(begin, end) for parts of [0, count), on every core.
void in_parallel(std::size_t count, const std::function<void(std::size_t, std::size_t)>& body) {
  const std::size_t parts = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 16);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < parts; ++i) {
    threads.emplace_back([&body, begin = count * i / parts, end = count * (i + 1) / parts] { body(begin, end); });
  }
  for (std::thread& thread : threads) thread.join();
}

/// out[m, n] += a[m, k] · b[k, n]
void add_product(const Numbers& a, const Numbers& b, std::size_t m, std::size_t n, std::size_t k, Numbers& out) {
  in_parallel(m, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      double* row = out.data() + i * n;
      for (std::size_t l = 0; l < k; ++l) {
        const double factor = a[i * k + l];
        const double* other = b.data() + l * n;
        for (std::size_t j = 0; j < n; ++j) row[j] += factor * other[j];
      }
    }
  });
}

/// The step's arithmetic: how it rounds.
class Arithmetic {
 public:
  explicit Arithmetic(DType dtype) : stored_(squared(epsilon(dtype))) {}

  /// a · b, rounded to `out`'s dtype: the model's, or f32 (for gradients of weights, which are sums over tokens).
  enum class Out : bool { narrow, f32 };
  [[nodiscard]] Matrix product(const Matrix& a, const Matrix& b, Out out = Out::narrow) const {
    const std::size_t m = a.rows;
    const std::size_t n = b.columns;
    const std::size_t k = a.columns;
    Matrix c(m, n);
    add_product(a.value, b.value, m, n, k, c.value);

    const double rounding = static_cast<double>(k) * sum_ + stored_;
    Numbers a_variance = squares(a.value);
    const Numbers a_squares = a_variance;
    for (std::size_t i = 0; i < a_variance.size(); ++i) a_variance[i] = a.variance[i] + rounding * a_variance[i];
    add_product(a_variance, squares(b.value), m, n, k, c.variance);
    const bool exact = std::all_of(b.variance.begin(), b.variance.end(), [](double v) { return v == 0; });
    if (!exact) add_product(a_squares, b.variance, m, n, k, c.variance);
    if (out == Out::f32) {
      Numbers drift(m * n, 0.0);
      add_product(roots(a.variance), magnitudes(b.value), m, n, k, drift);
      if (!exact) add_product(magnitudes(a.value), roots(b.variance), m, n, k, drift);
      for (std::size_t i = 0; i < drift.size(); ++i) c.variance[i] += drift_variance(drift[i]);
    } else {
      store(c);
    }
    return c;
  }

  /// The errors of different tokens may be one and the same: then a sum over tokens drifts by the sum of one deviation
  /// of each of its terms.
  [[nodiscard]] static double drift_variance(double drift) noexcept { return squared(drift / deviations); }

  /// What is kept in the model's dtype is rounded to it.
  void store(Matrix& a) const {
    for (std::size_t i = 0; i < a.value.size(); ++i) a.variance[i] += stored_ * squared(a.value[i]);
  }

  [[nodiscard]] Matrix sum(const Matrix& a, const Matrix& b) const {
    Matrix out = a;
    for (std::size_t i = 0; i < a.value.size(); ++i) {
      out.value[i] += b.value[i];
      out.variance[i] += b.variance[i];
    }
    store(out);
    return out;
  }

  /// Adds a vector to each row.
  void add_bias(Matrix& a, const Numbers& bias) const {
    for (std::size_t i = 0; i < a.value.size(); ++i) a.value[i] += bias[i % a.columns];
    store(a);
  }

  /// The sum of each column.
  [[nodiscard]] Matrix column_sums(const Matrix& a) const {
    Matrix ones(1, a.rows);
    std::fill(ones.value.begin(), ones.value.end(), 1.0);
    return product(ones, a, Out::f32);
  }

  /// Variance of one fp32 operation's rounding, relative to the square of its result.
  [[nodiscard]] double sum() const noexcept { return sum_; }

 private:
  double sum_ = squared(epsilon(f32));
  double stored_;
};

struct Normed {
  Matrix y;
  Numbers scale;        // of each row
  Numbers scale_drift;  // its variance, relative to its square
};

Normed rms_norm(const Matrix& x, const Arithmetic& arithmetic) {
  Normed out{x, Numbers(x.rows), Numbers(x.rows)};
  for (std::size_t r = 0; r < x.rows; ++r) {
    double mean = 0;
    for (std::size_t c = 0; c < x.columns; ++c) mean += squared(x.value[r * x.columns + c]);
    mean /= static_cast<double>(x.columns);
    const double scale = out.scale[r] = 1 / std::sqrt(mean + static_cast<double>(rms_epsilon));
    // The scale's own error is the whole row's: by its derivative, -scale³ · x / columns for each x.
    double drift = arithmetic.sum();
    for (std::size_t c = 0; c < x.columns; ++c) {
      const std::size_t i = r * x.columns + c;
      drift += squared(squared(scale) * x.value[i] / static_cast<double>(x.columns)) * x.variance[i];
    }
    out.scale_drift[r] = drift;
    for (std::size_t c = 0; c < x.columns; ++c) {
      const std::size_t i = r * x.columns + c;
      out.y.value[i] *= scale;
      out.y.variance[i] = squared(scale) * x.variance[i] + squared(out.y.value[i]) * drift;
    }
  }
  arithmetic.store(out.y);
  return out;
}

Matrix rms_norm_backward(const Normed& norm, const Matrix& dy, const Arithmetic& arithmetic) {
  Matrix dx = dy;
  for (std::size_t r = 0; r < dy.rows; ++r) {
    const std::size_t row = r * dy.columns;
    double mean = 0;
    for (std::size_t c = 0; c < dy.columns; ++c) mean += norm.y.value[row + c] * dy.value[row + c];
    mean /= static_cast<double>(dy.columns);
    // So is the mean's.
    double mean_variance = arithmetic.sum() * squared(mean);
    for (std::size_t c = row; c < row + dy.columns; ++c) {
      mean_variance += (squared(norm.y.value[c]) * (dy.variance[c] + arithmetic.sum() * squared(dy.value[c])) +
                        squared(dy.value[c]) * norm.y.variance[c]) /
                       squared(static_cast<double>(dy.columns));
    }
    for (std::size_t c = row; c < row + dy.columns; ++c) {
      dx.value[c] = norm.scale[r] * (dy.value[c] - norm.y.value[c] * mean);
      dx.variance[c] = squared(norm.scale[r]) * (dy.variance[c] + norm.y.variance[c] * squared(mean) +
                                                 squared(norm.y.value[c]) * mean_variance) +
                       squared(dx.value[c]) * norm.scale_drift[r];
    }
  }
  arithmetic.store(dx);
  return dx;
}

// gelu(x) = x/2 · (1 + tanh(u)), u = a · (x + b · x³)
constexpr double gelu_a = 0.79788456080286535588;  // √(2/π)
constexpr double gelu_b = 0.044715;

double gelu(double x) { return 0.5 * x * (1 + std::tanh(gelu_a * (x + gelu_b * x * x * x))); }

double gelu_slope(double x) {
  const double t = std::tanh(gelu_a * (x + gelu_b * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_a * (1 + 3 * gelu_b * x * x);
}

// |gelu''| is nowhere larger.
constexpr double gelu_curvature = 0.8;

Matrix activate(const Matrix& x, const Arithmetic& arithmetic) {
  Matrix y = x;
  for (std::size_t i = 0; i < x.value.size(); ++i) {
    y.value[i] = gelu(x.value[i]);
    y.variance[i] *= squared(gelu_slope(x.value[i]));
    // 1 + tanh loses all that is small beside 1.
    y.variance[i] += arithmetic.sum() * squared(x.value[i]);
  }
  arithmetic.store(y);
  return y;
}

Matrix activate_backward(const Matrix& x, const Matrix& dy, const Arithmetic& arithmetic) {
  Matrix dx = dy;
  for (std::size_t i = 0; i < x.value.size(); ++i) {
    const double slope = gelu_slope(x.value[i]);
    dx.value[i] *= slope;
    dx.variance[i] *= squared(slope);
    dx.variance[i] +=
        squared(dy.value[i]) * (squared(gelu_curvature) * x.variance[i] + arithmetic.sum() * (1 + squared(x.value[i])));
  }
  arithmetic.store(dx);
  return dx;
}

struct Loss {
  Matrix mean{1, 1};
  Matrix gradient;
};

Loss softmax_cross_entropy(const Matrix& logits, std::span<const std::uint8_t> targets, const Arithmetic& arithmetic) {
  Loss loss{{1, 1}, logits};
  const auto rows = static_cast<double>(logits.rows);
  for (std::size_t r = 0; r < logits.rows; ++r) {
    const double* z = logits.value.data() + r * logits.columns;
    const double* variance = logits.variance.data() + r * logits.columns;
    const std::size_t target = targets[r];
    const double highest = *std::max_element(z, z + logits.columns);
    double sum = 0;
    for (std::size_t c = 0; c < logits.columns; ++c) sum += std::exp(z[c] - highest);
    double spread = 0;  // of log Σ exp
    for (std::size_t c = 0; c < logits.columns; ++c) spread += squared(std::exp(z[c] - highest) / sum) * variance[c];
    const double level = highest + std::log(sum);
    loss.mean.value[0] += (level - z[target]) / rows;
    const double terms = static_cast<double>(logits.columns) * arithmetic.sum();
    loss.mean.variance[0] +=
        (spread + variance[target] + terms * (1 + squared(level) + squared(z[target]))) / squared(rows);
    for (std::size_t c = 0; c < logits.columns; ++c) {
      const double p = std::exp(z[c] - highest) / sum;
      const std::size_t place = r * logits.columns + c;
      loss.gradient.value[place] = (p - (c == target ? 1 : 0)) / rows;
      const double relative = spread + variance[c] + terms + arithmetic.sum() * squared(z[c] - highest);
      loss.gradient.variance[place] = squared(p / rows) * relative;
    }
  }
  // The mean itself is a sum of as many terms as there are tokens.
  loss.mean.variance[0] += rows * arithmetic.sum() * squared(loss.mean.value[0]);
  arithmetic.store(loss.gradient);
  return loss;
}

ReferenceTensor bounded(const Matrix& a) {
  ReferenceTensor out{a.value, Numbers(a.value.size())};
  std::transform(a.variance.begin(), a.variance.end(), out.bound.begin(),
                 [](double variance) { return deviations * std::sqrt(variance); });
  return out;
}

/// What a block's forward pass leaves for its backward pass.
struct BlockState {
  Matrix up, down;  // [width, hidden], [hidden, width]
  Normed normed;
  Matrix before, after;
};

}  // namespace

ReferenceStep reference_step(const ModelOptions& options, std::span<const std::vector<float>> parameters,
                             const Tokens& batch) {
  const Arithmetic arithmetic(options.dtype);
  const auto tokens = batch.targets.size();
  const auto context = static_cast<std::size_t>(options.context);
  const auto d = static_cast<std::size_t>(options.embedding);
  const auto hidden = static_cast<std::size_t>(options.hidden);
  const auto width = static_cast<std::size_t>(options.width);
  const auto layers = static_cast<std::size_t>(options.layers);
  const std::vector<float>& table = parameters[0];
  const Matrix projection(hidden, context * d, parameters[1]);
  const Matrix head(byte_values, hidden, parameters[2]);

  Matrix embedded(tokens, context * d);
  for (std::size_t i = 0; i < tokens * context; ++i) {
    for (std::size_t j = 0; j < d; ++j) embedded.value[i * d + j] = table[batch.contexts[i] * d + j];
  }
  Matrix x = arithmetic.product(embedded, transposed(projection));
  std::vector<BlockState> blocks;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const auto of_layer = parameters.subspan(3 + 4 * layer, 4);
    BlockState block;
    block.up = Matrix(width, hidden, of_layer[0]);
    block.down = Matrix(hidden, width, of_layer[2]);
    block.normed = rms_norm(x, arithmetic);
    block.before = arithmetic.product(block.normed.y, transposed(block.up));
    arithmetic.add_bias(block.before, Numbers(of_layer[1].begin(), of_layer[1].end()));
    block.after = activate(block.before, arithmetic);
    Matrix y = arithmetic.product(block.after, transposed(block.down));
    arithmetic.add_bias(y, Numbers(of_layer[3].begin(), of_layer[3].end()));
    x = arithmetic.sum(x, y);
    blocks.push_back(std::move(block));
  }
  const Normed normed = rms_norm(x, arithmetic);
  const Matrix logits = arithmetic.product(normed.y, transposed(head));
  const Loss loss = softmax_cross_entropy(logits, batch.targets, arithmetic);

  constexpr auto as_f32 = Arithmetic::Out::f32;
  ReferenceStep step{bounded(loss.mean), std::vector<ReferenceTensor>(3 + 4 * layers)};
  step.gradients[2] = bounded(arithmetic.product(transposed(loss.gradient), normed.y, as_f32));
  Matrix dx = rms_norm_backward(normed, arithmetic.product(loss.gradient, head), arithmetic);
  for (std::size_t layer = layers; layer-- > 0;) {
    const BlockState& block = blocks[layer];
    ReferenceTensor* gradients = step.gradients.data() + 3 + 4 * layer;
    gradients[2] = bounded(arithmetic.product(transposed(dx), block.after, as_f32));
    gradients[3] = bounded(arithmetic.column_sums(dx));
    const Matrix dbefore = activate_backward(block.before, arithmetic.product(dx, block.down), arithmetic);
    gradients[0] = bounded(arithmetic.product(transposed(dbefore), block.normed.y, as_f32));
    gradients[1] = bounded(arithmetic.column_sums(dbefore));
    dx = arithmetic.sum(dx, rms_norm_backward(block.normed, arithmetic.product(dbefore, block.up), arithmetic));
  }
  step.gradients[1] = bounded(arithmetic.product(transposed(dx), embedded, as_f32));

  const Matrix dembedded = arithmetic.product(dx, projection);
  Matrix dtable(byte_values, d);
  Numbers terms(byte_values, 0.0);
  Numbers sizes(byte_values * d, 0.0);
  Numbers drifts(byte_values * d, 0.0);
  for (std::size_t i = 0; i < tokens * context; ++i) {
    terms[batch.contexts[i]] += 1;
    for (std::size_t j = 0; j < d; ++j) {
      const std::size_t place = batch.contexts[i] * d + j;
      dtable.value[place] += dembedded.value[i * d + j];
      dtable.variance[place] += dembedded.variance[i * d + j];
      sizes[place] += squared(dembedded.value[i * d + j]);
      drifts[place] += std::sqrt(dembedded.variance[i * d + j]);
    }
  }
  for (std::size_t place = 0; place < sizes.size(); ++place) {
    dtable.variance[place] += terms[place / d] * arithmetic.sum() * sizes[place];
    dtable.variance[place] += Arithmetic::drift_variance(drifts[place]);
  }
  step.gradients[0] = bounded(dtable);
  return step;
}

}  // namespace tandem::language_model

// SPDX-License-Identifier: Apache-2.0
#include "language_model/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <future>
#include <iterator>
#include <utility>

#include "language_model/arithmetic.hpp"

namespace tandem::language_model {
namespace {

struct Normed {
  Matrix y;
  Numbers scale;        // per row
  Numbers scale_drift;  // its variance, relative to its square
};

Normed rms_norm(const Matrix& x, Arithmetic& arithmetic) {
  Normed out{x, Numbers(x.rows), Numbers(x.rows)};
  const auto columns = static_cast<double>(x.columns);
  for (std::size_t r = 0; r < x.rows; ++r) {
    const std::size_t row = r * x.columns;
    double sum = 0;
    double sizes = 0;
    for (std::size_t i = row; i < row + x.columns; ++i) {
      sum += squared(x.value[i]);
      sizes += squared(squared(x.value[i]));
    }
    const double exact = 1 / std::sqrt(sum / columns + static_cast<double>(rms_epsilon));
    // The scale's own error is shared by the whole row. It is that of a square root: half of the sum's relative error.
    const double own = arithmetic.rounding() * (1 + columns * sizes * squared(squared(exact) / columns) / 4);
    const auto [moved, left] = arithmetic.shared(own);
    const double scale = out.scale[r] = exact * (1 + moved);
    // The propagated error: the derivative is -scale³ · x / columns for each x.
    double drift = left;
    for (std::size_t i = row; i < row + x.columns; ++i) {
      drift += squared(squared(scale) * x.value[i] / columns) * x.variance[i];
    }
    out.scale_drift[r] = drift;
    for (std::size_t i = row; i < row + x.columns; ++i) {
      out.y.value[i] *= scale;
      out.y.variance[i] = squared(scale) * x.variance[i] + squared(out.y.value[i]) * drift;
    }
  }
  arithmetic.store(out.y);
  return out;
}

Matrix rms_norm_backward(const Normed& norm, const Matrix& dy, Arithmetic& arithmetic) {
  Matrix dx = dy;
  const auto columns = static_cast<double>(dy.columns);
  for (std::size_t r = 0; r < dy.rows; ++r) {
    const std::size_t row = r * dy.columns;
    double sum = 0;
    double sizes = 0;
    double carried = 0;
    for (std::size_t i = row; i < row + dy.columns; ++i) {
      const double y = norm.y.value[i];
      sum += y * dy.value[i];
      sizes += squared(y * dy.value[i]);
      carried += squared(y) * dy.variance[i] + squared(dy.value[i]) * norm.y.variance[i];
    }
    // The mean's own error is shared by the whole row, too.
    const auto [moved, left] =
        arithmetic.shared(arithmetic.rounding() * (squared(sum) + columns * sizes) / squared(columns));
    const double mean = sum / columns + moved;
    const double mean_variance = left + carried / squared(columns);
    for (std::size_t i = row; i < row + dy.columns; ++i) {
      const double y = norm.y.value[i];
      dx.value[i] = norm.scale[r] * (dy.value[i] - y * mean);
      dx.variance[i] =
          squared(norm.scale[r]) * (dy.variance[i] + norm.y.variance[i] * squared(mean) + squared(y) * mean_variance +
                                    arithmetic.rounding() * squared(y * mean)) +
          squared(dx.value[i]) * norm.scale_drift[r];
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

// An upper bound of |gelu''|.
constexpr double gelu_curvature = 0.8;

Matrix activate(const Matrix& x, Arithmetic& arithmetic) {
  Matrix y = x;
  for (std::size_t i = 0; i < x.value.size(); ++i) {
    y.value[i] = gelu(x.value[i]);
    y.variance[i] *= squared(gelu_slope(x.value[i]));
    // 1 + tanh loses whatever is small relative to 1.
    y.variance[i] += arithmetic.rounding() * squared(x.value[i]);
  }
  arithmetic.store(y);
  return y;
}

Matrix activate_backward(const Matrix& x, const Matrix& dy, Arithmetic& arithmetic) {
  Matrix dx = dy;
  for (std::size_t i = 0; i < x.value.size(); ++i) {
    const double slope = gelu_slope(x.value[i]);
    dx.value[i] *= slope;
    dx.variance[i] *= squared(slope);
    dx.variance[i] += squared(dy.value[i]) *
                      (squared(gelu_curvature) * x.variance[i] + arithmetic.rounding() * (1 + squared(x.value[i])));
  }
  arithmetic.store(dx);
  return dx;
}

struct Loss {
  Matrix mean{1, 1};
  Matrix gradient;
};

Loss softmax_cross_entropy(const Matrix& logits, std::span<const std::uint8_t> targets, Arithmetic& arithmetic) {
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
    const double terms = static_cast<double>(logits.columns) * arithmetic.rounding();
    loss.mean.variance[0] +=
        (spread + variance[target] + terms * (1 + squared(level) + squared(z[target]))) / squared(rows);
    const auto [moved, left] = arithmetic.shared(terms);
    for (std::size_t c = 0; c < logits.columns; ++c) {
      const double p = std::exp(z[c] - highest) / sum * (1 + moved);
      const std::size_t place = r * logits.columns + c;
      loss.gradient.value[place] = (p - (c == target ? 1 : 0)) / rows;
      const double relative = spread + variance[c] + left + arithmetic.rounding() * (1 + squared(z[c] - highest));
      loss.gradient.variance[place] = squared(p / rows) * relative;
    }
  }
  // The mean itself is a sum with one term per token.
  loss.mean.variance[0] += rows * arithmetic.rounding() * squared(loss.mean.value[0]);
  arithmetic.settle(loss.mean);
  arithmetic.store(loss.gradient);
  return loss;
}

/// The gradient of a byte's embedding is the sum over the positions where the byte occurs.
Matrix embed_backward(const Matrix& dembedded, std::span<const std::uint8_t> contexts, std::size_t d,
                      Arithmetic& arithmetic) {
  Matrix dtable(byte_values, d);
  Numbers terms(byte_values, 0.0);
  Numbers sizes(byte_values * d, 0.0);
  Numbers drifts(byte_values * d, 0.0);
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    terms[contexts[i]] += 1;
    for (std::size_t j = 0; j < d; ++j) {
      const std::size_t place = contexts[i] * d + j;
      dtable.value[place] += dembedded.value[i * d + j];
      dtable.variance[place] += dembedded.variance[i * d + j];
      sizes[place] += squared(dembedded.value[i * d + j]);
      drifts[place] += std::sqrt(dembedded.variance[i * d + j]);
    }
  }
  for (std::size_t byte = 0; byte < byte_values; ++byte) {
    for (std::size_t place = byte * d; place < (byte + 1) * d; ++place) {
      dtable.variance[place] += terms[byte] * arithmetic.rounding() * sizes[place];
      dtable.variance[place] += Arithmetic::drift_variance(drifts[place]);
    }
  }
  arithmetic.settle(dtable);
  return dtable;
}

/// What a block's forward pass keeps for its backward pass.
struct BlockState {
  Matrix up, down;  // [width, hidden], [hidden, width]
  Normed normed;
  Matrix before, after;
};

/// The loss, and then the gradients.
std::vector<Matrix> results(const ModelOptions& options, std::span<const std::vector<float>> parameters,
                            const Tokens& batch, Arithmetic arithmetic) {
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
    arithmetic.add_bias(block.before, of_layer[1]);
    block.after = activate(block.before, arithmetic);
    Matrix y = arithmetic.product(block.after, transposed(block.down));
    arithmetic.add_bias(y, of_layer[3]);
    x = arithmetic.sum(x, y);
    blocks.push_back(std::move(block));
  }
  const Normed normed = rms_norm(x, arithmetic);
  const Matrix logits = arithmetic.product(normed.y, transposed(head));
  const Loss loss = softmax_cross_entropy(logits, batch.targets, arithmetic);

  constexpr auto as_f32 = Arithmetic::Out::f32;
  std::vector<Matrix> out(4 + 4 * layers);
  out[0] = loss.mean;
  Matrix* gradients = out.data() + 1;
  gradients[2] = arithmetic.product(transposed(loss.gradient), normed.y, as_f32);
  Matrix dx = rms_norm_backward(normed, arithmetic.product(loss.gradient, head), arithmetic);
  for (std::size_t layer = layers; layer-- > 0;) {
    const BlockState& block = blocks[layer];
    Matrix* of_layer = gradients + 3 + 4 * layer;
    of_layer[2] = arithmetic.product(transposed(dx), block.after, as_f32);
    of_layer[3] = arithmetic.column_sums(dx);
    const Matrix dbefore = activate_backward(block.before, arithmetic.product(dx, block.down), arithmetic);
    of_layer[0] = arithmetic.product(transposed(dbefore), block.normed.y, as_f32);
    of_layer[1] = arithmetic.column_sums(dbefore);
    dx = arithmetic.sum(dx, rms_norm_backward(block.normed, arithmetic.product(dbefore, block.up), arithmetic));
  }
  gradients[1] = arithmetic.product(transposed(dx), embedded, as_f32);

  gradients[0] = embed_backward(arithmetic.product(dx, projection), batch.contexts, d, arithmetic);
  return out;
}

/// Adds the squares of a sample's deviations from `counted`.
void add_squares(const Matrix& counted, const Matrix& sample, Numbers& squares) {
  squares.resize(counted.value.size());
  for (std::size_t i = 0; i < squares.size(); ++i) squares[i] += squared(sample.value[i] - counted.value[i]);
}

/// Where samples moved a row by more than its variances predict, these are scaled up to match; then the same for single
/// elements, since what moves a row need not move all of it equally. `squares` are sums over the samples.
void widen(Matrix& counted, const Numbers& squares, double samples) {
  for (std::size_t r = 0; r < counted.rows; ++r) {
    double sum = 0;
    double terms = 0;
    for (std::size_t i = r * counted.columns; i < (r + 1) * counted.columns; ++i) {
      if (counted.variance[i] == 0) continue;
      sum += squares[i] / counted.variance[i];
      terms += samples;
    }
    const double growth = terms == 0 ? 1 : std::max(1.0, sum / terms);
    for (std::size_t i = r * counted.columns; i < (r + 1) * counted.columns; ++i) {
      counted.variance[i] = std::max(growth * counted.variance[i], squares[i] / samples);
    }
  }
}

ReferenceTensor bounded(Matrix a) {
  ReferenceTensor out{std::move(a.value), std::move(a.variance)};
  for (double& x : out.bound) x = deviations * std::sqrt(x);
  return out;
}

}  // namespace

ReferenceStep reference_step(const ModelOptions& options, std::span<const std::vector<float>> parameters,
                             const Tokens& batch, int samples) {
  // Concurrently, since much of each runs on one core; but few at once, since each holds all activations.
  constexpr int at_once = 4;
  std::vector<Matrix> counted;
  std::vector<Numbers> squares;
  for (int begin = 0; begin < samples; begin += at_once) {
    std::vector<std::future<std::vector<Matrix>>> sampling;
    for (int key = begin; key < std::min(begin + at_once, samples); ++key) {
      sampling.push_back(std::async(std::launch::async, [&options, parameters, &batch, key] {
        return results(options, parameters, batch,
                       Arithmetic::sampling(options.dtype, static_cast<std::uint64_t>(key)));
      }));
    }
    if (begin == 0) counted = results(options, parameters, batch, Arithmetic::counting(options.dtype));
    for (std::future<std::vector<Matrix>>& sample : sampling) {
      const std::vector<Matrix> moved = sample.get();
      squares.resize(moved.size());
      for (std::size_t i = 0; i < moved.size(); ++i) add_squares(counted[i], moved[i], squares[i]);
    }
  }
  std::vector<ReferenceTensor> tensors;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    widen(counted[i], squares[i], samples);
    tensors.push_back(bounded(std::move(counted[i])));
  }
  ReferenceStep step{std::move(tensors.front()), {}};
  step.gradients.assign(std::make_move_iterator(tensors.begin() + 1), std::make_move_iterator(tensors.end()));
  return step;
}

}  // namespace tandem::language_model

// SPDX-License-Identifier: Apache-2.0
#include "language_model/host_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/base/scalar.hpp"

namespace tandem::language_model {
namespace {

/// Calls `body` with a value of the type that stores `dtype`.
template <typename Body> void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32: return body(float{});
    case DType::f16: return body(Half{});
    case DType::bf16: return body(BFloat16{});
    default: throw Unsupported("the language model computes in f32, f16 or bf16");
  }
}

template <typename T> void embed_rows(const TensorView& contexts, const TensorView& table, const TensorView& out) {
  const std::int64_t d = table.size(1);
  const auto* bytes = contexts.data_as<const std::uint8_t>();
  for (std::int64_t i = 0; i < contexts.numel(); ++i) {
    std::copy_n(table.data_as<const T>() + bytes[i] * d, d, out.data_as<T>() + i * d);
  }
}

template <typename T>
void embed_rows_backward(const TensorView& contexts, const TensorView& dout, const TensorView& dtable) {
  const std::int64_t d = dtable.size(1);
  const auto* bytes = contexts.data_as<const std::uint8_t>();
  // In double: a frequent byte has thousands of terms, and adding them in fp32 would round the sum each time.
  std::vector<double> sums(static_cast<std::size_t>(dtable.numel()), 0.0);
  for (std::int64_t i = 0; i < contexts.numel(); ++i) {
    const T* from = dout.data_as<const T>() + i * d;
    double* to = sums.data() + bytes[i] * d;
    for (std::int64_t j = 0; j < d; ++j) to[j] += static_cast<double>(static_cast<float>(from[j]));
  }
  std::transform(sums.begin(), sums.end(), dtable.data_as<float>(), [](double sum) { return static_cast<float>(sum); });
}

template <typename T> void rms_norm_rows(const TensorView& x, const TensorView& y, const TensorView& scale) {
  const std::int64_t n = x.size(1);
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    const T* from = x.data_as<const T>() + r * n;
    T* to = y.data_as<T>() + r * n;
    float squares = 0;
    for (std::int64_t j = 0; j < n; ++j) squares += static_cast<float>(from[j]) * static_cast<float>(from[j]);
    const float s = 1.0F / std::sqrt(squares / static_cast<float>(n) + rms_epsilon);
    scale.data_as<float>()[r] = s;
    for (std::int64_t j = 0; j < n; ++j) to[j] = static_cast<T>(static_cast<float>(from[j]) * s);
  }
}

template <typename T>
void rms_norm_rows_backward(const TensorView& y, const TensorView& scale, const TensorView& dy, const TensorView& dx) {
  const std::int64_t n = y.size(1);
  for (std::int64_t r = 0; r < y.size(0); ++r) {
    const T* out = y.data_as<const T>() + r * n;
    const T* back = dy.data_as<const T>() + r * n;
    T* to = dx.data_as<T>() + r * n;
    float dot = 0;
    for (std::int64_t j = 0; j < n; ++j) dot += static_cast<float>(out[j]) * static_cast<float>(back[j]);
    const float mean = dot / static_cast<float>(n);
    const float s = scale.data_as<const float>()[r];
    for (std::int64_t j = 0; j < n; ++j) {
      const float change = s * (static_cast<float>(back[j]) - static_cast<float>(out[j]) * mean);
      to[j] = static_cast<T>(static_cast<float>(to[j]) + change);
    }
  }
}

template <typename T>
void softmax_cross_entropy_rows(const TensorView& logits, const TensorView& targets, float weight,
                                const TensorView& losses, const TensorView& dlogits) {
  const std::int64_t n = logits.size(1);
  for (std::int64_t r = 0; r < logits.size(0); ++r) {
    const T* z = logits.data_as<const T>() + r * n;
    T* dz = dlogits.data_as<T>() + r * n;
    const std::uint8_t target = targets.data_as<const std::uint8_t>()[r];
    float highest = static_cast<float>(z[0]);
    for (std::int64_t j = 1; j < n; ++j) highest = std::max(highest, static_cast<float>(z[j]));
    float sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += std::exp(static_cast<float>(z[j]) - highest);
    for (std::int64_t j = 0; j < n; ++j) {
      const float p = std::exp(static_cast<float>(z[j]) - highest) / sum;
      dz[j] = static_cast<T>(weight * (j == target ? p - 1.0F : p));
    }
    losses.data_as<float>()[r] = weight * (highest + std::log(sum) - static_cast<float>(z[target]));
  }
}

void adam_elements(const TensorView& master, const TensorView& gradient, const TensorView& mean,
                   const TensorView& variance, const AdamStep& step) {
  auto* w = master.data_as<float>();
  const auto* g = gradient.data_as<const float>();
  auto* m = mean.data_as<float>();
  auto* v = variance.data_as<float>();
  const float m_correction = 1.0F / (1.0F - std::pow(step.beta1, static_cast<float>(step.step)));
  const float v_correction = 1.0F / (1.0F - std::pow(step.beta2, static_cast<float>(step.step)));
  for (std::int64_t i = 0; i < master.numel(); ++i) {
    m[i] = step.beta1 * m[i] + (1.0F - step.beta1) * g[i];
    v[i] = step.beta2 * v[i] + (1.0F - step.beta2) * g[i] * g[i];
    w[i] -= step.learning_rate * m[i] * m_correction / (std::sqrt(v[i] * v_correction) + step.epsilon);
  }
}

class HostKernels final : public Kernels {
 public:
  explicit HostKernels(Device& device) : device_(device) {}

  void embed(const TensorView& contexts, const TensorView& table, const TensorView& out,
             StreamRef stream) const override {
    with_type(out.dtype(),
              [&](auto type) { device_.launch(stream, [=] { embed_rows<decltype(type)>(contexts, table, out); }); });
  }

  void embed_backward(const TensorView& contexts, const TensorView& dout, const TensorView& dtable,
                      StreamRef stream) const override {
    with_type(dout.dtype(), [&](auto type) {
      device_.launch(stream, [=] { embed_rows_backward<decltype(type)>(contexts, dout, dtable); });
    });
  }

  void rms_norm(const TensorView& x, const TensorView& y, const TensorView& scale, StreamRef stream) const override {
    with_type(x.dtype(),
              [&](auto type) { device_.launch(stream, [=] { rms_norm_rows<decltype(type)>(x, y, scale); }); });
  }

  void rms_norm_backward(const TensorView& y, const TensorView& scale, const TensorView& dy, const TensorView& dx,
                         StreamRef stream) const override {
    with_type(y.dtype(), [&](auto type) {
      device_.launch(stream, [=] { rms_norm_rows_backward<decltype(type)>(y, scale, dy, dx); });
    });
  }

  void softmax_cross_entropy(const TensorView& logits, const TensorView& targets, float weight,
                             const TensorView& losses, const TensorView& dlogits, StreamRef stream) const override {
    with_type(logits.dtype(), [&](auto type) {
      device_.launch(stream,
                     [=] { softmax_cross_entropy_rows<decltype(type)>(logits, targets, weight, losses, dlogits); });
    });
  }

  void adam(const TensorView& master, const TensorView& gradient, const TensorView& mean, const TensorView& variance,
            const AdamStep& step, StreamRef stream) const override {
    device_.launch(stream, [=] { adam_elements(master, gradient, mean, variance, step); });
  }

 private:
  Device& device_;
};

}  // namespace

std::unique_ptr<Kernels> make_host_kernels(Device& device) { return std::make_unique<HostKernels>(device); }

}  // namespace tandem::language_model

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tandem/base/tensor_view.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/stream.hpp"

namespace tandem::language_model {

/// Adam's constants and state; `step` counts from 1.
struct AdamStep {
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.99F;
  float epsilon = 1e-8F;
  int step = 1;
};

/// What a language model needs besides GEMMs: each call queues one operation on a stream, on this rank's rows. Tensors
/// are dense; `T` is the model's compute dtype (f32, f16 or bf16), sums are kept in fp32, and the order of every sum is
/// fixed.
class Kernels {
 public:
  virtual ~Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// out[r, p·d + j] = table[contexts[r, p], j]. contexts: u8 [rows, context]; table: T [256, d]; out: T [rows,
  /// context·d].
  virtual void embed(const TensorView& contexts, const TensorView& table, const TensorView& out,
                     StreamRef stream) const = 0;
  /// dtable[b, j] = Σ dout[r, p·d + j] over all r, p with contexts[r, p] = b. dtable: f32.
  virtual void embed_backward(const TensorView& contexts, const TensorView& dout, const TensorView& dtable,
                              StreamRef stream) const = 0;

  /// y[r] = x[r] · scale[r] with scale[r] = 1 / √(mean(x[r]²) + rms_epsilon). x, y: T [rows, n]; scale: f32 [rows].
  virtual void rms_norm(const TensorView& x, const TensorView& y, const TensorView& scale, StreamRef stream) const = 0;
  /// dx[r] += scale[r] · (dy[r] − y[r] · mean(y[r] · dy[r])).
  virtual void rms_norm_backward(const TensorView& y, const TensorView& scale, const TensorView& dy,
                                 const TensorView& dx, StreamRef stream) const = 0;

  /// losses[r] = −weight · log softmax(logits[r])[targets[r]], and its gradient. logits, dlogits: T [rows, 256];
  /// targets: u8 [rows]; losses: f32 [rows].
  virtual void softmax_cross_entropy(const TensorView& logits, const TensorView& targets, float weight,
                                     const TensorView& losses, const TensorView& dlogits, StreamRef stream) const = 0;

  /// One step of Adam. All f32, of equal size: the parameters, their gradient, and the gradient's moments.
  virtual void adam(const TensorView& master, const TensorView& gradient, const TensorView& mean,
                    const TensorView& variance, const AdamStep& step, StreamRef stream) const = 0;

 protected:
  Kernels() = default;
};

inline constexpr float rms_epsilon = 1e-6F;

/// The kernels for a device. Throws Unsupported for a device that this build has none for.
[[nodiscard]] std::unique_ptr<Kernels> make_kernels(Device& device);

}  // namespace tandem::language_model

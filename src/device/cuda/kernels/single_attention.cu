// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/single_attention.hpp"
#include "device/cuda/kernels/table.cuh"

namespace tandem::cuda {
namespace {

constexpr int warp = 32;

struct Sizes {
  int heads;
  int group;  ///< heads that share a key
  int dim;
  int value_dim;
  float scale;
};

/// The sum over a warp of x[i] · y[i].
template <typename X, typename Y> __device__ float dot(const X* x, const Y* y, int count) {
  float sum = 0.0F;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += warp) sum = fmaf(widen(x[i]), widen(y[i]), sum);
  for (int offset = warp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, offset);
  return sum;
}

/// A warp for each head of each batch. The softmax of a single score is 1.
template <typename T>
__global__ void __launch_bounds__(warp) forward_kernel(const AttentionOperands given, const Sizes sizes) {
  const std::int64_t head = blockIdx.x;
  const std::int64_t kv_head = head / sizes.group;
  const T* const v = static_cast<const T*>(given.v) + kv_head * sizes.value_dim;
  T* const out = static_cast<T*>(given.out) + head * sizes.value_dim;
  for (int i = static_cast<int>(threadIdx.x); i < sizes.value_dim; i += warp) out[i] = v[i];
  const float score = sizes.scale * dot(static_cast<const T*>(given.q) + head * sizes.dim,
                                        static_cast<const T*>(given.k) + kv_head * sizes.dim, sizes.dim);
  if (threadIdx.x == 0) given.lse[head] = score;
}

/// What one of the heads that share a key adds to its gradients.
struct Share {
  float probability;  ///< below 1 if lse has other keys, too
  float score;        ///< the gradient of the score before it is scaled
};

/// A warp for each head of keys of each batch, which goes through the heads that share it, in order.
template <typename T>
__global__ void __launch_bounds__(warp) backward_kernel(const AttentionGradientOperands given, const Sizes sizes) {
  const std::int64_t kv_head = blockIdx.x;
  const T* const k = static_cast<const T*>(given.k) + kv_head * sizes.dim;
  const T* const v = static_cast<const T*>(given.v) + kv_head * sizes.value_dim;
  const auto share_of = [&](std::int64_t head) -> Share {
    const T* const grad_out = static_cast<const T*>(given.grad_out) + head * sizes.value_dim;
    const float score = sizes.scale * dot(static_cast<const T*>(given.q) + head * sizes.dim, k, sizes.dim);
    const float probability = expf(fminf(score - given.lse[head], 0.0F));
    const float delta = dot(grad_out, static_cast<const T*>(given.out) + head * sizes.value_dim, sizes.value_dim);
    return {probability, probability * (dot(grad_out, v, sizes.value_dim) - delta) * sizes.scale};
  };
  // Each pass over the heads computes their shares anew: sums of a dimension's gradients stay in registers.
  const auto sum = [&](const void* of_heads, T* into, int dim, auto weight) {
    for (int first = 0; first < dim; first += warp) {
      const int i = first + static_cast<int>(threadIdx.x);
      float total = 0.0F;
      for (int member = 0; member < sizes.group; ++member) {
        const std::int64_t head = kv_head * sizes.group + member;
        const float by = weight(share_of(head));
        if (i < dim) total = fmaf(by, widen(static_cast<const T*>(of_heads)[head * dim + i]), total);
      }
      if (i < dim) into[i] = narrow<T>(total);
    }
  };
  sum(given.q, static_cast<T*>(given.dk) + kv_head * sizes.dim, sizes.dim,
      [](const Share& share) { return share.score; });
  sum(given.grad_out, static_cast<T*>(given.dv) + kv_head * sizes.value_dim, sizes.value_dim,
      [](const Share& share) { return share.probability; });
  for (int member = 0; member < sizes.group; ++member) {
    const std::int64_t head = kv_head * sizes.group + member;
    const float by = share_of(head).score;
    T* const dq = static_cast<T*>(given.dq) + head * sizes.dim;
    for (int i = static_cast<int>(threadIdx.x); i < sizes.dim; i += warp) dq[i] = narrow<T>(by * widen(k[i]));
  }
}

Sizes sizes_of(const AttentionSpec& spec) {
  return {static_cast<int>(spec.heads), static_cast<int>(spec.heads / spec.kv_heads), static_cast<int>(spec.head_dim),
          static_cast<int>(spec.dim_of_values()), spec.scale_of_scores()};
}

template <typename Operands>
cudaError_t launch(const void* kernel, const AttentionSpec& spec, const Operands& operands, std::int64_t blocks,
                   cudaStream_t stream) {
  Sizes sizes = sizes_of(spec);
  void* parameters[] = {const_cast<Operands*>(&operands), &sizes};
  return cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(warp), parameters, 0, stream);
}

const void* forward_of(DType dtype) {
  return dtype == f16 ? reinterpret_cast<const void*>(&forward_kernel<__half>)
                      : reinterpret_cast<const void*>(&forward_kernel<__nv_bfloat16>);
}

const void* backward_of(DType dtype) {
  return dtype == f16 ? reinterpret_cast<const void*>(&backward_kernel<__half>)
                      : reinterpret_cast<const void*>(&backward_kernel<__nv_bfloat16>);
}

}  // namespace

cudaError_t launch_single_forward(const AttentionSpec& spec, const AttentionOperands& operands, cudaStream_t stream) {
  return launch(forward_of(spec.dtype), spec, operands, spec.batch * spec.heads, stream);
}

cudaError_t launch_single_backward(const AttentionSpec& spec, const AttentionGradientOperands& operands,
                                   cudaStream_t stream) {
  return launch(backward_of(spec.dtype), spec, operands, spec.batch * spec.kv_heads, stream);
}

cudaError_t load_single_attention_kernels() {
  return load_kernels({forward_of(f16), forward_of(bf16), backward_of(f16), backward_of(bf16)});
}

}  // namespace tandem::cuda

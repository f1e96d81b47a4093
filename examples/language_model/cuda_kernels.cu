// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "language_model/cuda_kernels.hpp"

namespace tandem::language_model {
namespace {

constexpr int threads = 256;

__device__ float widen(float x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T> __device__ T narrow(float x);
template <> __device__ float narrow<float>(float x) { return x; }
template <> __device__ __half narrow<__half>(float x) { return __float2half_rn(x); }
template <> __device__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }

/// The sum over a block of `threads` threads, for all of them, always in the same order. `shared` has one place a
/// thread.
__device__ float block_sum(float value, float* shared) {
  __syncthreads();
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  return shared[0];
}

__device__ float block_max(float value, float* shared) {
  __syncthreads();
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  return shared[0];
}

template <typename T>
__global__ void embed_kernel(const std::uint8_t* bytes, const T* table, T* out, std::int64_t count, int d) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i < count) out[i] = table[bytes[i / d] * d + i % d];
}

/// A block for each byte and column. Its threads share the places, and their sums are added in a fixed order.
template <typename T>
__global__ void embed_backward_kernel(const std::uint8_t* bytes, const T* dout, float* dtable, std::int64_t places) {
  __shared__ float shared[threads];
  const int d = static_cast<int>(gridDim.y);
  const int j = static_cast<int>(blockIdx.y);
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < places; i += threads) {
    if (bytes[i] == blockIdx.x) sum += widen(dout[i * d + j]);
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) dtable[blockIdx.x * d + j] = sum;
}

/// A block a row, as in the next two.
template <typename T> __global__ void rms_norm_kernel(const T* x, T* y, float* scale, std::int64_t n) {
  __shared__ float shared[threads];
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * n;
  float squares = 0;
  for (std::int64_t j = threadIdx.x; j < n; j += threads) squares += widen(x[row + j]) * widen(x[row + j]);
  squares = block_sum(squares, shared);
  const float s = 1.0F / sqrtf(squares / static_cast<float>(n) + rms_epsilon);
  if (threadIdx.x == 0) scale[blockIdx.x] = s;
  for (std::int64_t j = threadIdx.x; j < n; j += threads) y[row + j] = narrow<T>(widen(x[row + j]) * s);
}

template <typename T>
__global__ void rms_norm_backward_kernel(const T* y, const float* scale, const T* dy, T* dx, std::int64_t n) {
  __shared__ float shared[threads];
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * n;
  float dot = 0;
  for (std::int64_t j = threadIdx.x; j < n; j += threads) dot += widen(y[row + j]) * widen(dy[row + j]);
  const float mean = block_sum(dot, shared) / static_cast<float>(n);
  const float s = scale[blockIdx.x];
  for (std::int64_t j = threadIdx.x; j < n; j += threads) {
    const float change = s * (widen(dy[row + j]) - widen(y[row + j]) * mean);
    dx[row + j] = narrow<T>(widen(dx[row + j]) + change);
  }
}

template <typename T>
__global__ void softmax_cross_entropy_kernel(const T* logits, const std::uint8_t* targets, float weight, float* losses,
                                             T* dlogits, int n) {
  __shared__ float shared[threads];
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * n;
  const int target = targets[blockIdx.x];
  float highest = widen(logits[row]);
  for (int j = static_cast<int>(threadIdx.x); j < n; j += threads) highest = fmaxf(highest, widen(logits[row + j]));
  highest = block_max(highest, shared);
  float sum = 0;
  for (int j = static_cast<int>(threadIdx.x); j < n; j += threads) sum += expf(widen(logits[row + j]) - highest);
  sum = block_sum(sum, shared);
  for (int j = static_cast<int>(threadIdx.x); j < n; j += threads) {
    const float p = expf(widen(logits[row + j]) - highest) / sum;
    dlogits[row + j] = narrow<T>(weight * (j == target ? p - 1.0F : p));
  }
  if (threadIdx.x == 0) losses[blockIdx.x] = weight * (highest + logf(sum) - widen(logits[row + target]));
}

__global__ void adam_kernel(float* w, const float* g, float* m, float* v, AdamStep step, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  m[i] = step.beta1 * m[i] + (1.0F - step.beta1) * g[i];
  v[i] = step.beta2 * v[i] + (1.0F - step.beta2) * g[i] * g[i];
  const float mean = m[i] / (1.0F - powf(step.beta1, static_cast<float>(step.step)));
  const float variance = v[i] / (1.0F - powf(step.beta2, static_cast<float>(step.step)));
  w[i] -= step.learning_rate * mean / (sqrtf(variance) + step.epsilon);
}

/// Calls `body` with a value of the type that stores `dtype`.
template <typename Body> void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32: return body(float{});
    case DType::f16: return body(__half{});
    case DType::bf16: return body(__nv_bfloat16{});
    default: refuse_dtype();
  }
}

class CudaKernels final : public Kernels {
 public:
  explicit CudaKernels(Device& device) : index_(device.id().index) {
    load_all<float>();
    load_all<__half>();
    load_all<__nv_bfloat16>();
    load(adam_kernel);
  }

  void embed(const TensorView& contexts, const TensorView& table, const TensorView& out,
             StreamRef stream) const override {
    with_type(out.dtype(), [&](auto type) {
      using T = decltype(type);
      launch("embed", stream, blocks(out.numel()), embed_kernel<T>, contexts.data_as<const std::uint8_t>(),
             table.data_as<const T>(), out.data_as<T>(), out.numel(), static_cast<int>(table.size(1)));
    });
  }

  void embed_backward(const TensorView& contexts, const TensorView& dout, const TensorView& dtable,
                      StreamRef stream) const override {
    with_type(dout.dtype(), [&](auto type) {
      using T = decltype(type);
      launch("embed_backward", stream,
             dim3(static_cast<unsigned>(dtable.size(0)), static_cast<unsigned>(dtable.size(1))),
             embed_backward_kernel<T>, contexts.data_as<const std::uint8_t>(), dout.data_as<const T>(),
             dtable.data_as<float>(), contexts.numel());
    });
  }

  void rms_norm(const TensorView& x, const TensorView& y, const TensorView& scale, StreamRef stream) const override {
    with_type(x.dtype(), [&](auto type) {
      using T = decltype(type);
      launch("rms_norm", stream, rows(x), rms_norm_kernel<T>, x.data_as<const T>(), y.data_as<T>(),
             scale.data_as<float>(), x.size(1));
    });
  }

  void rms_norm_backward(const TensorView& y, const TensorView& scale, const TensorView& dy, const TensorView& dx,
                         StreamRef stream) const override {
    with_type(y.dtype(), [&](auto type) {
      using T = decltype(type);
      launch("rms_norm_backward", stream, rows(y), rms_norm_backward_kernel<T>, y.data_as<const T>(),
             scale.data_as<const float>(), dy.data_as<const T>(), dx.data_as<T>(), y.size(1));
    });
  }

  void softmax_cross_entropy(const TensorView& logits, const TensorView& targets, float weight,
                             const TensorView& losses, const TensorView& dlogits, StreamRef stream) const override {
    with_type(logits.dtype(), [&](auto type) {
      using T = decltype(type);
      launch("softmax_cross_entropy", stream, rows(logits), softmax_cross_entropy_kernel<T>, logits.data_as<const T>(),
             targets.data_as<const std::uint8_t>(), weight, losses.data_as<float>(), dlogits.data_as<T>(),
             static_cast<int>(logits.size(1)));
    });
  }

  void adam(const TensorView& master, const TensorView& gradient, const TensorView& mean, const TensorView& variance,
            const AdamStep& step, StreamRef stream) const override {
    launch("adam", stream, blocks(master.numel()), adam_kernel, master.data_as<float>(),
           gradient.data_as<const float>(), mean.data_as<float>(), variance.data_as<float>(), step, master.numel());
  }

 private:
  static dim3 blocks(std::int64_t elements) { return {static_cast<unsigned>((elements + threads - 1) / threads)}; }
  static dim3 rows(const TensorView& view) { return {static_cast<unsigned>(view.size(0))}; }

  /// CUDA loads a kernel when it is first used, which must not happen while another one waits for a peer.
  template <typename... Parameters> void load(void (*kernel)(Parameters...)) const {
    cudaFuncAttributes attributes{};
    check("loading kernels", cudaSetDevice(index_));
    check("loading kernels", cudaFuncGetAttributes(&attributes, kernel));
  }
  template <typename T> void load_all() const {
    load(embed_kernel<T>);
    load(embed_backward_kernel<T>);
    load(rms_norm_kernel<T>);
    load(rms_norm_backward_kernel<T>);
    load(softmax_cross_entropy_kernel<T>);
  }

  static void check(const char* what, cudaError_t error) {
    if (error != cudaSuccess) refuse_call(what, cudaGetErrorString(error));
  }

  template <typename... Parameters, typename... Arguments>
  void launch(const char* name, StreamRef stream, dim3 grid, void (*kernel)(Parameters...),
              Arguments... arguments) const {
    if (grid.x == 0) return;  // no rows
    check(name, cudaSetDevice(index_));
    kernel<<<grid, threads, 0, static_cast<cudaStream_t>(stream.native_handle())>>>(arguments...);
    check(name, cudaGetLastError());
  }

  int index_;
};

}  // namespace

std::unique_ptr<Kernels> make_cuda_kernels(Device& device) { return std::make_unique<CudaKernels>(device); }

}  // namespace tandem::language_model

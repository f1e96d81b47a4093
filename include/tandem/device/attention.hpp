// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tandem/base/concepts.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/export.hpp"
#include "tandem/device/stream.hpp"

namespace tandem {

/// Which keys a query sees: query i sees key j only if i - left ≤ j ≤ i + right; an absent bound is no bound. So
/// {.right = 0} is causal, and {.left = 99, .right = 0} a causal window of 100 keys.
struct AttentionBand {
  std::optional<std::int64_t> left{};
  std::optional<std::int64_t> right{};

  [[nodiscard]] bool sees_all() const noexcept { return !left && !right; }
  friend bool operator==(const AttentionBand&, const AttentionBand&) = default;
};

/// out = softmax(scale · Q Kᵀ, over the keys that the band shows) · V, for each batch and head. Head h of Q attends to
/// head h / (heads / kv_heads) of K and V (grouped-query attention). All tensors are dense:
///   Q [queries, batch, heads, head_dim], K [keys, batch, kv_heads, head_dim], V [keys, batch, kv_heads, value_dim],
///   out [queries, batch, heads, value_dim], of `dtype`; gradients as what they are the gradients of;
///   lse [batch, heads, queries] of f32: log Σ exp of the scaled scores, from which blocks of keys are merged.
/// Tokens come first, so that a range of them is one range of memory for any batch.
struct AttentionSpec {
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;  ///< divides `heads`
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;                 ///< 0: head_dim
  DType dtype = f32;                          ///< f32 (on the host), f16 or bf16; sums and the softmax are in fp32
  AttentionBand band{};                       ///< shows every query at least one key
  std::optional<float> scale = std::nullopt;  ///< above 0; 1/√head_dim
  bool gradients = false;                     ///< `backward` will be called, too
  /// CUDA: gradients have the same bits in every run. That takes memory, on Hopper two bytes for every pair of a query
  /// and a key in every head, and some 10 percent of the time. Hosts always do.
  bool deterministic = false;

  [[nodiscard]] std::int64_t dim_of_values() const noexcept { return value_dim == 0 ? head_dim : value_dim; }
  [[nodiscard]] float scale_of_scores() const noexcept {
    return scale.value_or(1.0F / std::sqrt(static_cast<float>(head_dim)));
  }
};

struct AttentionOperands {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
};

/// The gradients are those of one block of keys: `out` and `lse` may be those of more keys than the block has, as
/// merged from all blocks. Then the sum of all blocks' dq is Q's gradient.
struct AttentionGradientOperands {
  const void* grad_out = nullptr;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* out = nullptr;
  const float* lse = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
};

/// A planned local attention: kernels loaded, workspace allocated. Runs are asynchronous and allocate no device memory.
/// Those of one object share its workspace: they must be ordered, and it must outlive them, and graphs of them.
class TANDEM_API Attention {
 public:
  virtual ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  /// Throw InvalidArgument for an operand that is missing, or not aligned to `alignment`, and `backward` unless the
  /// spec has `gradients`.
  virtual void forward(StreamRef stream, const AttentionOperands& operands) = 0;
  virtual void backward(StreamRef stream, const AttentionGradientOperands& operands) = 0;
  /// Bytes to which addresses of all operands but lse must be aligned: 16 for cuDNN.
  [[nodiscard]] virtual std::size_t alignment() const noexcept { return 1; }
  /// "cuDNN 9.19, workspace 514 MiB", …
  [[nodiscard]] virtual std::string describe() const = 0;
  [[nodiscard]] const AttentionSpec& spec() const noexcept { return spec_; }

 protected:
  explicit Attention(const AttentionSpec& spec) : spec_(spec) {}

 private:
  AttentionSpec spec_;
};
static_assert(Pinned<Attention>);

/// Rows of a tensor of tokens, and of a part that is merged into them.
struct MergedRows {
  std::int64_t count = 0;
  std::int64_t first = 0;       ///< of the tensor's `tokens`
  std::int64_t tokens = 0;      ///< which the tensor has
  std::int64_t part_first = 0;  ///< of the part's `part_tokens`
  std::int64_t part_tokens = 0;
};

/// Merges attention to a block of keys with that to other keys, in f32, for a range of queries that see keys of both:
///   lse' = log(exp(lse) + exp(lse_part)), after = before · exp(lse - lse') + part · exp(lse_part - lse')
/// and lse becomes lse'. Without lse, it adds a part of a gradient: after = before + part. Tensors are dense, [tokens,
/// batch, heads, dim] and [batch, heads, tokens] for lse; pointers are those of whole tensors. `before` and `after` may
/// be the same memory if they are of one dtype.
struct AttentionMerge {
  const void* before = nullptr;  ///< of f32 or `dtype`
  void* after = nullptr;         ///< of f32 or `dtype`
  const void* part = nullptr;    ///< of `dtype`
  float* lse = nullptr;
  const float* lse_part = nullptr;
  MergedRows rows{};
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t dim = 0;
  DType dtype = f32;
  DType before_dtype = f32;
  DType after_dtype = f32;
};
static_assert(Plain<AttentionMerge>);

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/attention.hpp"

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "base/most_elements.hpp"
#include "device/attention_check.hpp"

namespace tandem {
namespace {

/// Whether the product of sizes that are not negative is at most `most_elements`.
bool fits(std::initializer_list<std::int64_t> sizes) noexcept {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size != 0 && product > most_elements / size) return false;
    product *= size;
  }
  return true;
}

void expect_given(std::initializer_list<std::pair<const void*, const char*>> operands, const char* what) {
  for (const auto& [operand, name] : operands) {
    if (operand == nullptr) throw InvalidArgument(format("{} without {}; it needs one", what, name));
  }
}

}  // namespace

std::string text_of(const AttentionBand& band) {
  const auto bound = [](const std::optional<std::int64_t>& keys) { return keys ? format("{}", *keys) : "any"; };
  return format("i - {} to i + {}", bound(band.left), bound(band.right));
}

void check_attention(const AttentionSpec& spec) {
  for (const auto& [size, name] : {std::pair{spec.batch, "batch"},
                                   {spec.queries, "queries"},
                                   {spec.keys, "keys"},
                                   {spec.value_dim, "value_dim"}}) {
    if (size < 0) throw InvalidArgument(format("attention with {} {}; allowed: 0 and more", name, size));
  }
  if (spec.head_dim < 1)
    throw InvalidArgument(format("attention with head_dim {}; allowed: 1 and more", spec.head_dim));
  if (spec.heads < 1 || spec.kv_heads < 1 || spec.heads % spec.kv_heads != 0) {
    throw InvalidArgument(
        format("attention with {} heads and {} kv_heads; the second must divide the first", spec.heads, spec.kv_heads));
  }
  if (spec.dtype != f32 && spec.dtype != f16 && spec.dtype != bf16) {
    throw InvalidArgument(format("attention of {}; allowed: f32, f16 and bf16", name(spec.dtype)));
  }
  if (spec.scale && (!std::isfinite(*spec.scale) || *spec.scale <= 0)) {
    throw InvalidArgument(format("attention with scale {}; allowed: finite numbers above 0", *spec.scale));
  }
  const std::int64_t widest = spec.head_dim > spec.dim_of_values() ? spec.head_dim : spec.dim_of_values();
  if (!fits({spec.queries, spec.batch, spec.heads, widest}) || !fits({spec.keys, spec.batch, spec.kv_heads, widest})) {
    throw InvalidArgument(
        format("attention of {} queries and {} keys, batch {}, {} and {} heads of {}; allowed: {} elements in a tensor",
               spec.queries, spec.keys, spec.batch, spec.heads, spec.kv_heads, widest, most_elements));
  }
  if (spec.queries == 0 || spec.batch == 0) return;
  // Query i sees keys from i - left to i + right.
  constexpr std::int64_t unbounded = std::numeric_limits<std::int64_t>::max() / 2;
  const std::int64_t left = spec.band.left.value_or(unbounded);
  const std::int64_t right = spec.band.right.value_or(unbounded);
  if (right < 0 || left < 0 || spec.queries - 1 - left > spec.keys - 1 || spec.keys == 0) {
    throw InvalidArgument(format(
        "attention of {} queries to {} keys from i - {} to i + {}; every query must see a key, and neither bound "
        "may be negative",
        spec.queries, spec.keys, spec.band.left ? format("{}", left) : "any",
        spec.band.right ? format("{}", right) : "any"));
  }
}

bool check_forward(const AttentionSpec& spec, const AttentionOperands& operands) {
  if (spec.batch == 0 || spec.queries == 0) return false;
  expect_given({{operands.q, "q"}, {operands.k, "k"}, {operands.v, "v"}, {operands.out, "out"}, {operands.lse, "lse"}},
               "attention");
  return true;
}

bool check_backward(const AttentionSpec& spec, const AttentionGradientOperands& operands) {
  if (!spec.gradients) throw InvalidArgument("attention's backward; its spec has no gradients");
  if (spec.batch == 0 || (spec.queries == 0 && spec.keys == 0)) return false;
  if (spec.queries != 0) {
    expect_given({{operands.grad_out, "grad_out"},
                  {operands.q, "q"},
                  {operands.k, "k"},
                  {operands.v, "v"},
                  {operands.out, "out"},
                  {operands.lse, "lse"},
                  {operands.dq, "dq"}},
                 "attention's backward");
  }
  expect_given({{operands.dk, "dk"}, {operands.dv, "dv"}}, "attention's backward");
  return true;
}

bool check_merge(const AttentionMerge& merge) {
  const MergedRows& rows = merge.rows;
  const auto lies_in = [&](std::int64_t first, std::int64_t tokens) {
    return first >= 0 && rows.count >= 0 && first <= tokens && rows.count <= tokens - first;
  };
  if (!lies_in(rows.first, rows.tokens) || !lies_in(rows.part_first, rows.part_tokens)) {
    throw InvalidArgument(
        format("a merge of {} tokens from {} of {}, and from {} of a part's {}; they must lie in both", rows.count,
               rows.first, rows.tokens, rows.part_first, rows.part_tokens));
  }
  if (merge.batch < 0 || merge.heads < 0 || merge.dim < 0) {
    throw InvalidArgument(
        format("a merge of batch {}, {} heads of {}; allowed: 0 and more", merge.batch, merge.heads, merge.dim));
  }
  if (merge.dtype != f32 && merge.dtype != f16 && merge.dtype != bf16) {
    throw InvalidArgument(format("a merge of {}; allowed: f32, f16 and bf16", name(merge.dtype)));
  }
  for (const DType dtype : {merge.before_dtype, merge.after_dtype}) {
    if (dtype == f32 || dtype == merge.dtype) continue;
    throw InvalidArgument(format("a merge of {} from {} to {}; allowed: f32 and {}", name(merge.dtype),
                                 name(merge.before_dtype), name(merge.after_dtype), name(merge.dtype)));
  }
  if (rows.count == 0 || merge.batch == 0 || merge.heads == 0 || merge.dim == 0) return false;
  expect_given({{merge.before, "a before"}, {merge.after, "an after"}, {merge.part, "a part"}}, "a merge");
  if ((merge.lse == nullptr) != (merge.lse_part == nullptr)) {
    throw InvalidArgument(
        format("a merge without {}; allowed: both, or no lse", merge.lse == nullptr ? "lse" : "lse_part"));
  }
  return true;
}

Attention::~Attention() = default;

}  // namespace tandem

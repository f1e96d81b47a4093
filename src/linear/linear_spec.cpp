// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_spec.hpp"

#include "base/format.hpp"

namespace tandem {

std::string to_string(const LinearSpec& spec) {
  std::string text = format("m={} n={} k={} {}", spec.m, spec.n, spec.k, name(spec.dtype));
  if (spec.dtype_of_weight() != spec.dtype) text += format(" by {}", name(spec.dtype_of_weight()));
  if (spec.dtype_of_y() != spec.dtype) text += format(" into {}", name(spec.dtype_of_y()));
  if (spec.scaling != Scaling::none) text += format(", scaled {}", name(spec.scaling));
  if (spec.fast_accum) text += ", fast_accum";
  if (spec.tf32) text += " in TF32";
  if (spec.gradient_dtype != f32) text += format(" into {}", name(spec.gradient_dtype));
  if (spec.x_layout != Layout::normal) text += " x[k, m]";
  if (spec.weight_layout != Layout::normal) text += " weight[k, n]";
  if (spec.bias) text += " bias";
  if (spec.activation != Activation::none) text += format(" {}", name(spec.activation));
  if (spec.auxiliary != Auxiliary::none) text += format(" auxiliary {}", name(spec.auxiliary));
  if (spec.alpha != 1.0F) text += format(" alpha={}", spec.alpha);
  if (spec.beta != 0.0F) text += format(" beta={}", spec.beta);
  return text;
}

}  // namespace tandem

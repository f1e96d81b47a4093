// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/gemm.hpp"

#include <algorithm>

#include "tandem/base/error.hpp"

#include "base/enum_check.hpp"
#include "base/format.hpp"
#include "base/most_elements.hpp"
#include "device/gemm_check.hpp"

namespace tandem {
namespace {

/// Checks a matrix as it is stored: `rows` of `row` elements, `pitch` elements from one to the next; 0: dense.
void check_stored(char name, std::int64_t rows, std::int64_t row, std::int64_t pitch) {
  const char leading = static_cast<char>(name - 'A' + 'a');
  if (pitch != 0 && pitch < row) {
    throw InvalidArgument(format("a GEMM's ld{} is {}, but a row as stored has {} elements", leading, pitch, row));
  }
  if (rows > most_elements / std::max({row, pitch, std::int64_t{1}})) {
    throw InvalidArgument(format("a GEMM's {} has {} rows of {} elements, with ld{} {}; allowed: {} elements in all",
                                 name, rows, row, leading, pitch, most_elements));
  }
}

}  // namespace

const char* name(Activation activation) noexcept {
  switch (activation) {
    case Activation::none: return "none";
    case Activation::gelu_erf: return "gelu_erf";
    case Activation::gelu_tanh: return "gelu_tanh";
  }
  return "?";
}

const char* name(Auxiliary auxiliary) noexcept {
  switch (auxiliary) {
    case Auxiliary::none: return "none";
    case Auxiliary::output: return "output";
    case Auxiliary::gradient: return "gradient";
  }
  return "?";
}

const char* name(Scaling scaling) noexcept {
  switch (scaling) {
    case Scaling::none: return "none";
    case Scaling::per_tensor: return "per_tensor";
    case Scaling::per_row: return "per_row";
  }
  return "?";
}

std::vector<std::int64_t> planned_rows(std::int64_t m) {
  std::vector<std::int64_t> rows;
  for (; m > 0; m /= 2) {
    rows.push_back(m);
    if (m >= 4) rows.push_back(m - m / 4);
  }
  return rows;
}

std::string why_mixed(const GemmSpec& spec) {
  const DType a = spec.dtype;
  const DType b = spec.dtype_of_b();
  const DType out = spec.out_dtype;
  if (is_float8(a) ? !is_float8(b) : a != b) {
    return format("of {} by {}; allowed: by {}", name(a), name(b), is_float8(a) ? "f8e4m3 or f8e5m2" : name(a));
  }
  if (is_float8(a) ? out != f32 && out != f16 && out != bf16 : out != a && out != f32) {
    const std::string allowed = is_float8(a) ? "f32, f16 or bf16" : format("{}{}", name(a), a == f32 ? "" : " or f32");
    return format("of {} into {}; allowed: into {}", name(a), name(out), allowed);
  }
  if (!is_float8(a) && (spec.scaling != Scaling::none || spec.fast_accum)) {
    return format("of {} with {}; that is for f8e4m3 and f8e5m2", name(a),
                  spec.fast_accum ? std::string("fast_accum") : format("scaling {}", name(spec.scaling)));
  }
  return "";
}

void check_gemm(const GemmSpec& spec) {
  for (const std::string& why : {why_unknown("a GEMM's activation", spec.activation, Activation::gelu_tanh),
                                 why_unknown("a GEMM's auxiliary", spec.auxiliary, Auxiliary::gradient),
                                 why_unknown("a GEMM's scaling", spec.scaling, Scaling::per_row)}) {
    if (!why.empty()) throw InvalidArgument(why);
  }
  if (spec.m < 0 || spec.n < 0 || spec.k < 0) {
    throw InvalidArgument(format("a GEMM of m {}, n {}, k {}; each must be 0 or more", spec.m, spec.n, spec.k));
  }
  if (const std::string why = why_mixed(spec); !why.empty()) throw InvalidArgument("a GEMM " + why);
  if (spec.tf32 && spec.dtype != f32) {
    throw InvalidArgument(format("a GEMM of {} in TF32; that is a way to multiply f32", name(spec.dtype)));
  }
  if (spec.leave_sms < 0) {
    throw InvalidArgument(format("a GEMM is to leave {} SMs; it must be 0 or more", spec.leave_sms));
  }
  check_stored('A', spec.transpose_a ? spec.k : spec.m, spec.transpose_a ? spec.m : spec.k, spec.lda);
  check_stored('B', spec.transpose_b ? spec.n : spec.k, spec.transpose_b ? spec.k : spec.n, spec.ldb);
  check_stored('D', spec.m, spec.n, spec.ldd);
  if (spec.auxiliary == Auxiliary::none) return;
  if (spec.activation == Activation::none) {
    throw InvalidArgument(
        format("a GEMM with auxiliary {} has no activation; allowed: gelu_erf, gelu_tanh, or no auxiliary",
               name(spec.auxiliary)));
  }
  if (spec.ldd != 0 && spec.ldd != spec.n) {
    throw InvalidArgument(format("a GEMM with auxiliary {} has an ldd of {} for rows of {}; they must be dense",
                                 name(spec.auxiliary), spec.ldd, spec.n));
  }
}

std::string dtypes_of(const GemmSpec& spec) {
  const bool alike = spec.dtype_of_b() == spec.dtype;
  return format("{}{}", name(spec.dtype), alike ? "" : format(" by {}", name(spec.dtype_of_b())));
}

std::string operands_of(const GemmSpec& spec) {
  std::string text = dtypes_of(spec);
  if (spec.scaling != Scaling::none) text += format(", scaled {}", name(spec.scaling));
  if (spec.fast_accum) text += ", fast_accum";
  return text;
}

GemmRun check_gemm_run(const GemmSpec& spec, const GemmOperands& operands) {
  const std::int64_t m = operands.m.value_or(spec.m);
  const std::int64_t k = operands.k.value_or(spec.k);
  if (m < 0 || k < 0 || m > spec.m || k > spec.k) {
    throw InvalidArgument(
        format("GEMM run with m = {}, k = {}; it was planned for 0 to {} and 0 to {}", m, k, spec.m, spec.k));
  }
  check_stored('A', spec.transpose_a ? k : m, spec.transpose_a ? m : k, operands.lda);
  if (operands.c != nullptr && spec.auxiliary != Auxiliary::none) {
    throw InvalidArgument(
        format("a GEMM run with a C of its own; with auxiliary {} it is what D holds", name(spec.auxiliary)));
  }
  const auto expect_given = [](bool needed, const void* operand, const char* what) {
    if (needed && operand == nullptr) throw InvalidArgument(format("a GEMM run without {}; its plan needs it", what));
  };
  const bool stores = m > 0 && spec.n > 0;
  expect_given(stores && k > 0, operands.a, "A");
  expect_given(stores && k > 0, operands.b, "B");
  expect_given(stores && k > 0 && spec.scaling != Scaling::none, operands.a_scale, "the scale of A");
  expect_given(stores && k > 0 && spec.scaling != Scaling::none, operands.b_scale, "the scale of B");
  expect_given(stores, operands.d, "D");
  expect_given(stores && spec.bias, operands.bias, "a bias");
  expect_given(stores && spec.auxiliary != Auxiliary::none, operands.aux, "its auxiliary");
  return {m, k, operands.beta.value_or(spec.beta)};
}

Gemm::~Gemm() = default;

std::vector<std::string> Gemm::algorithms(std::int64_t m) const {
  if (m < 0 || m > spec().m) {
    throw InvalidArgument(format("the algorithms of a GEMM for m = {}; it was planned for 0 to {}", m, spec().m));
  }
  return {};
}

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "tandem/base/dtype.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/device/reduce.hpp"

namespace tandem {

/// The host's elementwise work, on the calling thread, in blocks that stay in L1; 16-bit floats are widened to fp32.
void reduce_now(const Reduction& reduction);
void map_now(const Map& map);
void column_sum_now(const ColumnSum& sum);

// Checked when the above are queued. Throw Unsupported.

/// For a dtype that cannot be summed.
void expect_sums_of(DType dtype);
/// For a dtype that column sums cannot read.
void expect_elementwise(DType dtype);
/// For a pair of dtypes that this kind of map does not have.
void expect_map(const Map& map);

/// A GEMM's last step on a row of `count` sums: out = activation(sums + beta · addend + bias), rounded once. `out` may
/// be `sums` or `addend`; if beta is 0, `addend` is not read. Addend, out and bias have `dtype`.
void finish_row(const float* sums, const void* addend, void* out, DType dtype, const void* bias, float beta,
                Activation activation, std::int64_t count);
void finish_row(const double* sums, const void* addend, void* out, DType dtype, const void* bias, double beta,
                Activation activation, std::int64_t count);

/// Converts `count` elements of a floating-point `dtype` (f8 too, not f64) to float.
void widen(DType dtype, const void* from, float* to, std::int64_t count);

/// The instruction set that the loops run on here: "AVX2" or "baseline vectors".
[[nodiscard]] const char* host_vector_isa() noexcept;

}  // namespace tandem

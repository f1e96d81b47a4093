// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "tandem/base/dtype.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/device/reduce.hpp"

namespace tandem {

/// The host's elementwise work: at once, on the calling thread, in blocks that stay in the L1 cache, in fp32.
void reduce_now(const Reduction& reduction);
void map_now(const Map& map);
void column_sum_now(const ColumnSum& sum);

// Who queues them asks before. Throw Unsupported.

/// For a dtype that is not summed.
void expect_sums_of(DType dtype);
/// For one that maps and column sums do not read, or maps do not write.
void expect_elementwise(DType dtype);

/// A GEMM's last step on a row of `count` sums: out = activation(sums + beta · addend + bias), rounded once. `out` may
/// be one of both; beta 0 does not read `addend`. Addend, out and bias are of `dtype`.
void finish_row(const float* sums, const void* addend, void* out, DType dtype, const void* bias, float beta,
                Activation activation, std::int64_t count);
void finish_row(const double* sums, const void* addend, void* out, DType dtype, const void* bias, double beta,
                Activation activation, std::int64_t count);

/// `count` elements of a floating-point `dtype` (not f64) as floats.
void widen(DType dtype, const void* from, float* to, std::int64_t count);

/// "AVX2", "SSE2", …: what the loops run on here.
[[nodiscard]] const char* host_vector_isa() noexcept;

}  // namespace tandem

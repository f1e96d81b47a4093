// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"

namespace tandem::tools {

/// The operations that `bench`, `verify` and `plan` know by name: five collectives, then four linear operations.
enum class Operation : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  broadcast,
  all_gather_linear,
  linear_reduce_scatter,
  linear_all_reduce,
  linear_weight_gradient
};

[[nodiscard]] const std::vector<std::string>& operation_names();
[[nodiscard]] const std::string& name(Operation operation);
/// Throws InvalidArgument, which lists the known names.
[[nodiscard]] Operation parse_operation(std::string_view text);

[[nodiscard]] constexpr bool is_linear(Operation operation) noexcept {
  return operation >= Operation::all_gather_linear;
}
[[nodiscard]] constexpr bool is_collective(Operation operation) noexcept { return !is_linear(operation); }
[[nodiscard]] constexpr bool is_broadcast(Operation operation) noexcept { return operation == Operation::broadcast; }
[[nodiscard]] constexpr bool is_all_gather_linear(Operation operation) noexcept {
  return operation == Operation::all_gather_linear;
}
[[nodiscard]] constexpr bool is_weight_gradient(Operation operation) noexcept {
  return operation == Operation::linear_weight_gradient;
}
/// Operations of the form y = x·Wᵀ, which have layouts, a bias and an activation.
[[nodiscard]] constexpr bool multiplies_weight(Operation operation) noexcept {
  return is_linear(operation) && !is_weight_gradient(operation);
}
/// For linear operations only.
[[nodiscard]] LinearKind linear_kind(Operation operation);
/// Whether a collective sums: then its dtype needs arithmetic, and results are rounded.
[[nodiscard]] constexpr bool adds(Operation operation) noexcept {
  return operation == Operation::reduce_scatter || operation == Operation::all_reduce;
}
/// The algorithms that a plan of this operation can be asked for, without "auto".
[[nodiscard]] std::vector<std::string> algorithms(Operation operation);
/// busbw / algbw as nccl-tests defines them: bytes that the bus carries per byte of a collective's size.
[[nodiscard]] double bus_factor(Operation operation, int ranks);

/// Throws InvalidArgument unless the operation supports this algorithm and dtype.
void expect_options(Operation operation, const std::string& algorithm, std::optional<DType> dtype, bool tf32 = false);
/// The dtype of a linear operation: `given`, or else the device's default.
[[nodiscard]] DType linear_dtype(std::optional<DType> given, bool tf32, DeviceType device);

/// How x and the weight of y = x·Wᵀ are stored.
struct Layouts {
  Layout x = Layout::normal;
  Layout weight = Layout::normal;
};
/// "NT", …: the BLAS letters of x and Wᵀ. T is a weight that is stored as in PyTorch, [N, K].
[[nodiscard]] std::string to_string(const Layouts& layouts);
[[nodiscard]] Layouts parse_layouts(std::string_view option, std::string_view text);

/// What layers of 8-bit floats (-d f8e4m3 or f8e5m2) have of their own: see LinearSpec.
struct Float8Options {
  std::optional<DType> weight_dtype = std::nullopt;
  std::optional<DType> out_dtype = std::nullopt;
  Scaling scaling = Scaling::none;
  bool fast_accum = false;
};

/// What is applied to the sum.
struct Epilogue {
  bool bias = false;
  Activation activation = Activation::none;
  Auxiliary auxiliary = Auxiliary::none;
};
/// Throws InvalidArgument for an auxiliary without an activation.
void expect_epilogue(const Epilogue& epilogue);
/// Options of weight gradients only.
struct GradientOptions {
  GatheredOperand gathered = GatheredOperand::x;
  DType dtype = f32;
};
/// ", layout NN, bias, gelu_erf": everything that differs from the defaults.
[[nodiscard]] std::string in_words(const Layouts& layouts, const Epilogue& epilogue = {});
/// ", weight f8e5m2, into f16, scaled per_row": everything that differs from the defaults.
[[nodiscard]] std::string in_words(const Float8Options& float8);
[[nodiscard]] std::string in_words(GatheredOperand gathered);
/// ", dy gathered, into bf16": everything that differs from the defaults.
[[nodiscard]] std::string in_words(const GradientOptions& gradient);

}  // namespace tandem::tools

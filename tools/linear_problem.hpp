// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "support/oracle.hpp"
#include "tools/operation.hpp"
#include "tools/parse.hpp"

namespace tandem::tools {

/// A linear operation on global matrices of random data, of which each rank has its part. N is split over the ranks if
/// the operation gathers x (each rank's share is ceil(N / ranks) or less), K otherwise.
struct LinearProblem {
  LinearKind kind = LinearKind::all_gather_linear;
  Shape shape;
  int ranks = 1;
  DType dtype = f32;
  Float8Options float8{};  ///< of layers of 8-bit floats
  bool tf32 = false;
  DeviceType device = DeviceType::host;  ///< only CUDA rounds to TF32, or sums with fewer bits than fp32 has
  Layout x_layout = Layout::normal;
  Layout weight_layout = Layout::normal;
  bool bias = false;
  Activation activation = Activation::none;
  Auxiliary auxiliary = Auxiliary::none;
  float alpha = 1.0F;
  float beta = 0.0F;
  bool symmetric_output = false;                  ///< linear_all_reduce: y is a symmetric tensor
  GatheredOperand gathered = GatheredOperand::x;  ///< weight gradients only
  DType gradient_dtype = f32;                     ///< weight gradients only: dtype of dW
  std::uint64_t key = 0;                          ///< seeds the data

  /// The matrices: x [M, K]; the weight [N, K]; the gradient of y [M, N]; bias [1, N]; the output's initial value, if
  /// beta is not 0; and the auxiliary [M, N] that a gradient reads.
  enum class Operand : std::uint8_t { x, weight, dy, bias, start, aux };
  /// A part of a global matrix: rows and columns [begin, begin + count).
  struct Block {
    Shard rows;
    Shard columns;
    [[nodiscard]] std::int64_t elements() const { return rows.count * columns.count; }
  };

  /// The spec of the plan on `rank`.
  [[nodiscard]] LinearSpec spec(int rank) const;
  /// That spec as `choose` takes it: for weight gradients, k is the number of gathered columns (of dy: n).
  [[nodiscard]] LinearSpec costed_spec(int rank) const;
  /// The part of an operand that `rank` has, and its part of the global output.
  [[nodiscard]] Block block(Operand operand, int rank) const;
  [[nodiscard]] Block output(int rank) const;
  /// Of the output, of bias and aux, and of what is added to.
  [[nodiscard]] DType output_dtype() const;
  [[nodiscard]] DType dtype_of(Operand operand) const;
  /// "bf16", "tf32", …: the type of the operands.
  [[nodiscard]] std::string_view type() const { return tf32 ? "tf32" : name(dtype); }
  /// True if N is split, else K.
  [[nodiscard]] bool splits_n() const;
  [[nodiscard]] bool is_gradient() const { return kind == LinearKind::linear_weight_gradient; }

  /// The scale of row `line` of x or of the weight, in a part that `rank` has: 1 without scaling.
  [[nodiscard]] double scale(Operand operand, std::int64_t line, int rank) const;
  /// Those of the rows that `rank` has, or the only one; empty without scaling.
  [[nodiscard]] std::vector<double> scales(Operand operand, int rank) const;

  /// The values of a block, dense and row-major, without their scales.
  [[nodiscard]] std::vector<double> values(Operand operand, const Block& block) const;
  /// The expected elements in these rows and columns of the global output.
  [[nodiscard]] testing::Expected expected(std::span<const std::int64_t> rows,
                                           std::span<const std::int64_t> columns) const;
};

/// A plan of any of the four kinds.
class LinearPlanOfAnyKind {
 public:
  /// Collective.
  LinearPlanOfAnyKind(const Team& team, const LinearProblem& problem, const LinearOptions& options);
  [[nodiscard]] const std::string& describe() const;
  [[nodiscard]] const LinearChoice& choice() const;
  /// AllGatherLinear with keep_gathered only.
  [[nodiscard]] TensorView gathered() const;

 private:
  friend class LinearRun;
  std::variant<AllGatherLinear, LinearReduceScatter, LinearAllReduce, LinearWeightGradient> plan_;
};

/// One rank's operands for a problem, in its device's memory.
class LinearRun {
 public:
  /// Makes the inputs and the output, which is poisoned unless beta reads it. Collective if the output is symmetric.
  LinearRun(const Team& team, const LinearProblem& problem);
  void reset_output();
  /// Queues one run.
  void operator()(LinearPlanOfAnyKind& plan, StreamRef stream) const;
  /// The output, of output_dtype, and the auxiliary. The stream must have been synchronized.
  [[nodiscard]] std::vector<std::byte> result() const { return content_of(output_); }
  [[nodiscard]] std::vector<std::byte> auxiliary() const { return content_of(aux_); }
  [[nodiscard]] const TensorView& first() const noexcept { return first_.view; }
  [[nodiscard]] const TensorView& second() const noexcept { return second_.view; }
  [[nodiscard]] const TensorView& output() const noexcept { return output_.view; }
  /// False if a run changed an operand or wrote outside its output.
  [[nodiscard]] bool kept_its_bounds() const;

 private:
  struct Tensor {
    Buffer buffer;
    TensorView view;
    std::vector<std::byte> content;
  };
  [[nodiscard]] Tensor tensor(std::span<const double> values, const Dims& sizes, DType dtype) const;
  [[nodiscard]] Tensor tensor(std::vector<std::byte> content, const Dims& sizes, DType dtype) const;
  [[nodiscard]] Tensor operand(LinearProblem::Operand operand, Layout layout) const;
  [[nodiscard]] Tensor scale(LinearProblem::Operand operand) const;
  void poison_tensor(Tensor& tensor) const;
  void upload(const Tensor& tensor) const;
  [[nodiscard]] std::vector<std::byte> content_of(const Tensor& tensor) const;
  [[nodiscard]] bool is_unchanged(const Tensor& tensor) const;
  [[nodiscard]] bool guards_stand(const Tensor& tensor) const;

  Team team_;
  LinearProblem problem_;
  Tensor first_;   // x; for a weight gradient dy
  Tensor second_;  // the weight; for a weight gradient x
  Tensor bias_;
  Tensor aux_;
  Tensor first_scale_;
  Tensor second_scale_;
  Tensor output_;
  SymmetricTensor symmetric_output_;  // holds output_ if it is symmetric; it then has no guards
};

}  // namespace tandem::tools

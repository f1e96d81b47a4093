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
#include "tools/parse.hpp"

namespace tandem::tools {

/// A linear operation on global matrices of random data, of which each rank has its part. N is split over the ranks
/// where the operation gathers (each rank's share is ceil(N / ranks) or less), K where it reduces.
struct LinearProblem {
  LinearKind kind = LinearKind::all_gather_linear;
  Shape shape;
  int ranks = 1;
  DType dtype = f32;
  bool tf32 = false;
  DeviceType device = DeviceType::host;  ///< which rounds to TF32, or has no such units
  Layout x = Layout::normal;
  Layout weight = Layout::normal;
  bool bias = false;
  Activation activation = Activation::none;
  Auxiliary auxiliary = Auxiliary::none;
  float alpha = 1.0F;
  float beta = 0.0F;
  bool symmetric_output = false;                  ///< an all-reduce's y is a symmetric tensor
  GatheredOperand gathered = GatheredOperand::x;  ///< weight gradients
  DType gradient_dtype = f32;                     ///< theirs
  std::uint64_t key = 0;                          ///< of the data

  /// Which of the matrices: x [M, K]; the weight [N, K]; the gradient of y [M, N]; bias [1, N]; what the output holds
  /// before, if beta is not 0; and the auxiliary [M, N] that a gradient reads.
  enum class Operand : std::uint8_t { x, weight, dy, bias, start, aux };
  /// A part of a global matrix: rows and columns [begin, begin + count).
  struct Block {
    RowRange rows;
    RowRange columns;
    [[nodiscard]] std::int64_t elements() const { return rows.count * columns.count; }
  };

  /// What the plan on `rank` is asked.
  [[nodiscard]] LinearSpec spec(int rank) const;
  /// The same as `choose` takes it: a weight gradient's k counts the columns that are gathered, and dy's are n.
  [[nodiscard]] LinearSpec costed_spec(int rank) const;
  /// The part of an operand that `rank` has, and the part of the global output.
  [[nodiscard]] Block block(Operand operand, int rank) const;
  [[nodiscard]] Block output(int rank) const;
  [[nodiscard]] DType output_dtype() const;
  /// "bf16", "tf32", …: what is multiplied.
  [[nodiscard]] std::string_view type() const { return tf32 ? "tf32" : name(dtype); }
  /// True if N is split, else K.
  [[nodiscard]] bool splits_n() const;
  [[nodiscard]] bool is_gradient() const { return kind == LinearKind::linear_weight_gradient; }

  /// The values of a block, dense and row-major.
  [[nodiscard]] std::vector<double> values(Operand operand, const Block& block) const;
  /// What these rows and columns of the global output must be.
  [[nodiscard]] testing::Expected expected(std::span<const std::int64_t> rows,
                                           std::span<const std::int64_t> columns) const;
};

/// Any of the four plans.
class LinearPlanOfAnyKind {
 public:
  /// Collective.
  LinearPlanOfAnyKind(const Team& team, const LinearProblem& problem, const LinearOptions& options);
  [[nodiscard]] const std::string& describe() const;
  [[nodiscard]] const LinearChoice& choice() const;
  /// AllGatherLinear with keep_gathered.
  [[nodiscard]] TensorView gathered() const;

 private:
  friend class LinearRun;
  std::variant<AllGatherLinear, LinearReduceScatter, LinearAllReduce, LinearWeightGradient> plan_;
};

/// One rank's operands for a problem, in its device's memory.
class LinearRun {
 public:
  /// Makes the data and the output, which is poisoned unless beta reads it. Local, but for a symmetric output.
  LinearRun(const Team& team, const LinearProblem& problem);
  void reset_output();
  /// Queues one run.
  void operator()(LinearPlanOfAnyKind& plan, StreamRef stream) const;
  /// The output, for elements of output_dtype, and the auxiliary. The stream has been synchronised.
  [[nodiscard]] std::vector<std::byte> result() const { return content_of(output_); }
  [[nodiscard]] std::vector<std::byte> auxiliary() const { return content_of(aux_); }
  [[nodiscard]] const TensorView& first() const noexcept { return first_.view; }
  [[nodiscard]] const TensorView& second() const noexcept { return second_.view; }
  [[nodiscard]] const TensorView& output() const noexcept { return output_.view; }
  /// False if a run changed an operand or wrote outside of its output.
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
  void poison_tensor(Tensor& tensor) const;
  void upload(const Tensor& tensor) const;
  [[nodiscard]] std::vector<std::byte> content_of(const Tensor& tensor) const;
  [[nodiscard]] bool is_unchanged(const Tensor& tensor) const;
  [[nodiscard]] bool guards_stand(const Tensor& tensor) const;

  Team team_;
  LinearProblem problem_;
  Tensor first_;   // x, or dy for a gradient
  Tensor second_;  // the weight, or x for a gradient
  Tensor bias_;
  Tensor aux_;
  Tensor output_;
  SymmetricTensor symmetric_output_;  // where output_ is, if it is symmetric: then nothing guards it
};

}  // namespace tandem::tools

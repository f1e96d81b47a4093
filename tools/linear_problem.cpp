// SPDX-License-Identifier: Apache-2.0
#include "tools/linear_problem.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <utility>

#include "tools/in_parallel.hpp"

namespace tandem::tools {
namespace {

using Operand = LinearProblem::Operand;
using Variant = std::variant<AllGatherLinear, LinearReduceScatter, LinearAllReduce, LinearWeightGradient>;

constexpr std::size_t guard_bytes = 256;
constexpr std::int64_t fewest_elements = 1 << 16;  // for which another host thread is worthwhile
constexpr std::byte guard{0xa5};
constexpr std::byte poison{0xff};  // NaN in every floating-point type

Variant make(const Team& team, const LinearProblem& problem, const LinearOptions& options) {
  const LinearSpec spec = problem.spec(team.rank());
  switch (problem.kind) {
    case LinearKind::linear_reduce_scatter: return LinearReduceScatter(team, spec, options);
    case LinearKind::linear_all_reduce: return LinearAllReduce(team, spec, options);
    case LinearKind::linear_weight_gradient: return LinearWeightGradient(team, spec, problem.gathered, options);
    case LinearKind::all_gather_linear: break;
  }
  return AllGatherLinear(team, spec, options);
}

}  // namespace

bool LinearProblem::splits_n() const {
  return kind == LinearKind::all_gather_linear || (is_gradient() && gathered == GatheredOperand::x);
}

DType LinearProblem::output_dtype() const { return is_gradient() ? gradient_dtype : spec(0).dtype_of_y(); }

DType LinearProblem::dtype_of(Operand operand) const {
  switch (operand) {
    case Operand::x:
    case Operand::dy: return dtype;
    case Operand::weight: return spec(0).dtype_of_weight();
    case Operand::bias:
    case Operand::start:
    case Operand::aux: break;
  }
  return output_dtype();
}

double LinearProblem::scale(Operand operand, std::int64_t line, int rank) const {
  if (float8.scaling == Scaling::none) return 1;
  // One for a whole tensor is that of a rank's part, unless all ranks must agree on it: x's where it is gathered. A row
  // of a rank's part of K has its own, too.
  const bool same = splits_n() && (operand == Operand::x || float8.scaling == Scaling::per_row);
  const std::uint64_t own =
      testing::key(key, {100 + static_cast<std::uint64_t>(operand), same ? 0 : static_cast<std::uint64_t>(rank)});
  const std::int64_t index = float8.scaling == Scaling::per_row ? line : 0;
  return static_cast<double>(static_cast<float>(0.5 + std::abs(testing::random_value(own, index, f32))));
}

std::vector<double> LinearProblem::scales(Operand operand, int rank) const {
  if (float8.scaling == Scaling::none) return {};
  if (float8.scaling == Scaling::per_tensor) return {scale(operand, 0, rank)};
  std::vector<double> all;
  const Shard rows = block(operand, rank).rows;
  for (std::int64_t row = rows.begin; row < rows.begin + rows.count; ++row) all.push_back(scale(operand, row, rank));
  return all;
}

LinearSpec LinearProblem::spec(int rank) const {
  LinearSpec spec{.m = shape.m,
                  .n = shape.n,
                  .k = shape.k,
                  .dtype = dtype,
                  .weight_dtype = float8.weight_dtype,
                  .out_dtype = float8.out_dtype,
                  .scaling = float8.scaling,
                  .fast_accum = float8.fast_accum,
                  .tf32 = tf32,
                  .x_layout = x_layout,
                  .weight_layout = weight_layout,
                  .bias = bias,
                  .activation = activation,
                  .auxiliary = auxiliary,
                  .gradient_dtype = gradient_dtype,
                  .alpha = alpha,
                  .beta = beta};
  std::int64_t& split = splits_n() ? spec.n : spec.k;
  split = shard_of(split, ranks, rank).count;
  return spec;
}

LinearSpec LinearProblem::costed_spec(int rank) const {
  LinearSpec costed = spec(rank);
  if (is_gradient() && gathered == GatheredOperand::dy) std::swap(costed.n, costed.k);
  return costed;
}

LinearProblem::Block LinearProblem::block(Operand operand, int rank) const {
  const Shard tokens{0, shape.m};
  const Shard own_tokens = shard_of(shape.m, ranks, rank);
  const Shard n = splits_n() ? shard_of(shape.n, ranks, rank) : Shard{0, shape.n};
  const Shard k = splits_n() ? Shard{0, shape.k} : shard_of(shape.k, ranks, rank);
  const bool gathers_x = kind == LinearKind::all_gather_linear || (is_gradient() && gathered == GatheredOperand::x);
  const bool gathers_dy = is_gradient() && gathered == GatheredOperand::dy;
  switch (operand) {
    case Operand::x: return {gathers_x ? own_tokens : tokens, k};
    case Operand::weight: return {n, k};
    case Operand::dy: return {gathers_dy ? own_tokens : tokens, n};
    case Operand::bias: return {{0, 1}, n};
    case Operand::start:
    case Operand::aux: return output(rank);
  }
  return {};
}

LinearProblem::Block LinearProblem::output(int rank) const {
  const Shard n = splits_n() ? shard_of(shape.n, ranks, rank) : Shard{0, shape.n};
  if (is_gradient()) return {n, splits_n() ? Shard{0, shape.k} : shard_of(shape.k, ranks, rank)};
  if (kind == LinearKind::linear_reduce_scatter) return {shard_of(shape.m, ranks, rank), n};
  return {{0, shape.m}, n};
}

std::vector<double> LinearProblem::values(Operand operand, const Block& block) const {
  const std::int64_t width =
      operand == Operand::x || operand == Operand::weight || (operand == Operand::start && is_gradient()) ? shape.k
                                                                                                          : shape.n;
  const DType type = dtype_of(operand);
  const std::uint64_t own = testing::key(key, {static_cast<std::uint64_t>(operand)});
  std::vector<double> result(static_cast<std::size_t>(block.elements()));
  const auto columns = std::max<std::int64_t>(block.columns.count, 1);
  in_parallel(block.rows.count, fewest_elements / columns + 1, ranks, [&](std::int64_t begin, std::int64_t end) {
    double* value = result.data() + begin * block.columns.count;
    for (std::int64_t r = block.rows.begin + begin; r < block.rows.begin + end; ++r) {
      for (std::int64_t c = block.columns.begin; c < block.columns.begin + block.columns.count; ++c) {
        *value++ = testing::random_value(own, r * width + c, type);
      }
    }
  });
  return result;
}

testing::Expected LinearProblem::expected(std::span<const std::int64_t> rows,
                                          std::span<const std::int64_t> columns) const {
  const std::int64_t depth = is_gradient() ? shape.m : shape.k;
  const auto m = static_cast<std::int64_t>(rows.size());
  const auto n = static_cast<std::int64_t>(columns.size());
  // Element [i, j] of the output is Σ over t of A(i, t) · B(t, j): x[i, t] · W[j, t], or dy[t, i] · x[t, j].
  std::vector<double> a;
  std::vector<double> b_transposed;
  const auto line = [&](Operand operand, std::int64_t index, bool is_row) {
    std::vector<double> all = values(operand, is_row ? Block{{index, 1}, {0, depth}} : Block{{0, depth}, {index, 1}});
    if (float8.scaling == Scaling::none) return all;
    // The ranks whose parts these are: of N for a gathered x, whose weight's rows they have; else of K.
    const std::int64_t part = std::max<std::int64_t>(shard_of(splits_n() ? shape.n : shape.k, ranks, 0).count, 1);
    const auto owner = [&](std::int64_t at) { return static_cast<int>(at / part); };
    for (int rank = 0; rank < ranks; ++rank) {
      if (splits_n() && rank != (operand == Operand::weight ? owner(index) : 0)) continue;
      const Shard its = splits_n() ? Shard{0, depth} : shard_of(depth, ranks, rank);
      const double factor = scale(operand, index, rank);
      for (std::int64_t at = its.begin; at < its.begin + its.count; ++at) all[static_cast<std::size_t>(at)] *= factor;
    }
    return all;
  };
  for (const std::int64_t row : rows) {
    const std::vector<double> one = line(is_gradient() ? Operand::dy : Operand::x, row, !is_gradient());
    a.insert(a.end(), one.begin(), one.end());
  }
  for (const std::int64_t column : columns) {
    const std::vector<double> one = line(is_gradient() ? Operand::x : Operand::weight, column, !is_gradient());
    b_transposed.insert(b_transposed.end(), one.begin(), one.end());
  }
  const std::vector<double> b = testing::transposed(b_transposed, n, depth);
  const auto elements = [&](Operand operand) {
    std::vector<double> all;
    for (const std::int64_t row : rows) {
      for (const std::int64_t column : columns) all.push_back(values(operand, {{row, 1}, {column, 1}})[0]);
    }
    return all;
  };
  const std::vector<double> start = beta == 0.0F ? std::vector<double>() : elements(Operand::start);
  const std::vector<double> gradient_at =
      auxiliary == Auxiliary::gradient ? elements(Operand::aux) : std::vector<double>();
  std::vector<double> added;
  if (bias) {
    for (const std::int64_t column : columns) added.push_back(values(Operand::bias, {{0, 1}, {column, 1}})[0]);
  }
  testing::Product product{.m = m,
                           .n = n,
                           .k = depth,
                           .a = a,
                           .b = b,
                           .start = start,
                           .bias = added,
                           .alpha = static_cast<double>(alpha),
                           .beta = static_cast<double>(beta),
                           .activation = activation,
                           .gradient_at = gradient_at,
                           .travels = output_dtype(),
                           .dtype = output_dtype(),
                           .tf32 = tf32 && device == DeviceType::cuda,
                           .summed_within = is_float8(dtype) && device == DeviceType::cuda
                                                ? testing::float8_error(spec(ranks - 1).k, float8.fast_accum)
                                                : 0,
                           .rounds_between = device == DeviceType::cuda};
  if (kind == LinearKind::linear_reduce_scatter || kind == LinearKind::linear_all_reduce) {
    const std::int64_t shard = std::max<std::int64_t>(shard_of(shape.m, ranks, 0).count, 1);
    for (int rank = 0; rank < ranks; ++rank) product.parts.push_back(shard_of(shape.k, ranks, rank).count);
    for (const std::int64_t row : rows) product.owners.push_back(static_cast<std::size_t>(row / shard));
  }
  return testing::expected_product(product);
}

LinearPlanOfAnyKind::LinearPlanOfAnyKind(const Team& team, const LinearProblem& problem, const LinearOptions& options)
    : plan_(make(team, problem, options)) {}

const std::string& LinearPlanOfAnyKind::describe() const {
  return std::visit([](const auto& plan) -> const std::string& { return plan.describe(); }, plan_);
}

const LinearChoice& LinearPlanOfAnyKind::choice() const {
  return std::visit([](const auto& plan) -> const LinearChoice& { return plan.choice(); }, plan_);
}

TensorView LinearPlanOfAnyKind::gathered() const { return std::get<AllGatherLinear>(plan_).gathered(); }

LinearRun::LinearRun(const Team& team, const LinearProblem& problem)
    : team_(team),
      problem_(problem),
      first_(operand(problem.is_gradient() ? Operand::dy : Operand::x,
                     problem.is_gradient() ? Layout::normal : problem.x_layout)),
      second_(operand(problem.is_gradient() ? Operand::x : Operand::weight,
                      problem.is_gradient() ? Layout::normal : problem.weight_layout)),
      first_scale_(scale(Operand::x)),
      second_scale_(scale(Operand::weight)) {
  if (problem.bias) {
    const LinearProblem::Block block = problem.block(Operand::bias, team.rank());
    bias_ = tensor(problem.values(Operand::bias, block), {block.columns.count}, problem.output_dtype());
  }
  const LinearProblem::Block block = problem.output(team.rank());
  if (problem.auxiliary != Auxiliary::none) {
    aux_ = operand(Operand::aux, Layout::normal);
    if (problem.auxiliary == Auxiliary::output) poison_tensor(aux_);
  }
  const Dims sizes{block.rows.count, block.columns.count};
  if (problem.beta == 0.0F) {
    const std::size_t bytes = static_cast<std::size_t>(block.elements()) * size_of(problem.output_dtype());
    output_ = tensor(std::vector<std::byte>(bytes, poison), sizes, problem.output_dtype());
  } else {
    output_ = tensor(problem.values(Operand::start, block), sizes, problem.output_dtype());
  }
  if (!problem.symmetric_output) return;
  symmetric_output_ = SymmetricTensor::empty(team, sizes, problem.output_dtype());
  symmetric_output_.rendezvous();
  output_.buffer = Buffer();
  output_.view = symmetric_output_.local();
  upload(output_);
}

void LinearRun::reset_output() {
  upload(output_);
  if (problem_.auxiliary == Auxiliary::output) upload(aux_);
}

void LinearRun::poison_tensor(Tensor& tensor) const {
  std::ranges::fill(tensor.content, poison);
  upload(tensor);
}

void LinearRun::upload(const Tensor& tensor) const {
  if (!tensor.content.empty()) {
    team_.device().upload(tensor.view.data(), tensor.content.data(), tensor.content.size());
  }
}

LinearRun::Tensor LinearRun::tensor(std::span<const double> values, const Dims& sizes, DType dtype) const {
  std::vector<std::byte> content(values.size() * size_of(dtype));
  in_parallel(std::ssize(values), fewest_elements, team_.size(), [&](std::int64_t begin, std::int64_t end) {
    const auto first = static_cast<std::size_t>(begin);
    testing::store(values.subspan(first, static_cast<std::size_t>(end) - first), dtype,
                   content.data() + first * size_of(dtype));
  });
  return tensor(std::move(content), sizes, dtype);
}

LinearRun::Tensor LinearRun::tensor(std::vector<std::byte> content, const Dims& sizes, DType dtype) const {
  Tensor tensor;
  tensor.content = std::move(content);
  const std::size_t bytes = tensor.content.size();
  std::vector<std::byte> whole(bytes + 2 * guard_bytes, guard);
  std::ranges::copy(tensor.content, whole.begin() + static_cast<std::ptrdiff_t>(guard_bytes));
  tensor.buffer = Buffer(team_.shared_device(), whole.size());
  team_.device().upload(tensor.buffer.data(), whole.data(), whole.size());
  tensor.view = tensor.buffer.view(sizes, dtype, guard_bytes);
  return tensor;
}

LinearRun::Tensor LinearRun::operand(Operand operand, Layout layout) const {
  const LinearProblem::Block block = problem_.block(operand, team_.rank());
  const std::vector<double> values = problem_.values(operand, block);
  const DType dtype = problem_.dtype_of(operand);
  if (layout == Layout::normal) return tensor(values, {block.rows.count, block.columns.count}, dtype);
  return tensor(testing::transposed(values, block.rows.count, block.columns.count),
                {block.columns.count, block.rows.count}, dtype);
}

LinearRun::Tensor LinearRun::scale(Operand operand) const {
  if (problem_.float8.scaling == Scaling::none) return {};
  const std::vector<double> values = problem_.scales(operand, team_.rank());
  return tensor(values, {std::ssize(values)}, f32);
}

void LinearRun::operator()(LinearPlanOfAnyKind& plan, StreamRef stream) const {
  std::visit(
      [&](auto& each) {
        using Plan = std::remove_cvref_t<decltype(each)>;
        if constexpr (std::is_same_v<Plan, LinearWeightGradient>) {
          each(first_.view, second_.view, output_.view, stream);
        } else {
          LinearOperands operands{.x = first_.view,
                                  .weight = second_.view,
                                  .bias = bias_.view,
                                  .aux = aux_.view,
                                  .x_scale = first_scale_.view,
                                  .weight_scale = second_scale_.view,
                                  .y = output_.view};
          if constexpr (std::is_same_v<Plan, LinearAllReduce>) {
            if (symmetric_output_) {
              operands.y = TensorView();
              return each(operands, symmetric_output_, stream);
            }
          }
          each(operands, stream);
        }
      },
      plan.plan_);
}

std::vector<std::byte> LinearRun::content_of(const Tensor& tensor) const {
  std::vector<std::byte> bytes(tensor.view.bytes());
  if (!bytes.empty()) team_.device().download(bytes.data(), tensor.view.data(), bytes.size());
  return bytes;
}

bool LinearRun::guards_stand(const Tensor& tensor) const {
  std::vector<std::byte> found(tensor.buffer.bytes());
  if (found.empty()) return true;
  team_.device().download(found.data(), tensor.buffer.data(), found.size());
  const auto is_guard = [](std::byte each) { return each == guard; };
  return std::all_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(guard_bytes), is_guard) &&
         std::all_of(found.end() - static_cast<std::ptrdiff_t>(guard_bytes), found.end(), is_guard);
}

bool LinearRun::is_unchanged(const Tensor& tensor) const { return content_of(tensor) == tensor.content; }

bool LinearRun::kept_its_bounds() const {
  const bool reads_aux = problem_.auxiliary == Auxiliary::gradient;
  return guards_stand(output_) && guards_stand(aux_) && is_unchanged(first_) && is_unchanged(second_) &&
         is_unchanged(bias_) && is_unchanged(first_scale_) && is_unchanged(second_scale_) &&
         (!reads_aux || is_unchanged(aux_));
}

}  // namespace tandem::tools

// SPDX-License-Identifier: Apache-2.0
#include "transformer_layer/check.hpp"

#include <algorithm>
#include <cmath>

#include "language_model/scalars.hpp"
#include "transformer_layer/values.hpp"

namespace tandem::transformer_layer {
namespace {

constexpr std::int64_t sampled_lines = 32;

/// A generated tensor, read by rows or by columns.
struct Lines {
  std::uint64_t key = 0;
  std::int64_t columns = 0;  // of the tensor
  bool along_rows = true;

  [[nodiscard]] std::vector<double> line(std::int64_t number, std::int64_t length) const {
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(length));
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t place = along_rows ? number * columns + t : t * columns + number;
      values.push_back(static_cast<double>(value_at(key, static_cast<std::uint64_t>(place))));
    }
    return values;
  }
};

/// result[i, j] = Σ left.line(i)[t] · right.line(j)[t] over `terms` of t.
struct Product {
  Lines left;
  Lines right;
  std::int64_t terms = 0;
  bool travels = false;  // each rank sends the sum over its share of the terms
};

Product product_of(const Part& part, std::size_t number, Result result, std::int64_t tokens, std::uint64_t seed) {
  const auto lines = [&](std::uint64_t tensor, std::int64_t columns, bool along_rows) {
    return Lines{key_of(seed, 3 * number + tensor), columns, along_rows};
  };
  const auto x = [&](bool along_rows) { return lines(0, part.inputs, along_rows); };
  const auto weight = [&](bool along_rows) { return lines(1, part.inputs, along_rows); };
  const auto dy = [&](bool along_rows) { return lines(2, part.outputs, along_rows); };
  switch (result) {
    case Result::y: return {x(true), weight(true), part.inputs, part.split == Split::inputs};
    case Result::dx: return {dy(true), weight(false), part.outputs, part.split == Split::outputs};
    case Result::dw: return {dy(false), x(false), tokens, false};
  }
  return {};
}

/// Up to `most` numbers of a range, evenly spaced and including both ends.
std::vector<std::int64_t> spread(const Shard& range, std::int64_t most) {
  const std::int64_t count = std::min(range.count, most);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(range.begin + (count == 1 ? 0 : i * (range.count - 1) / (count - 1)));
  }
  return numbers;
}

/// Counts elements that are still poison: all bits set, a NaN that no sum produces.
std::int64_t elements_unwritten(const std::vector<std::byte>& out, std::size_t element) {
  std::int64_t count = 0;
  for (auto at = out.begin(); at != out.end(); at += static_cast<std::ptrdiff_t>(element)) {
    const auto end = at + static_cast<std::ptrdiff_t>(element);
    if (std::all_of(at, end, [](std::byte byte) { return byte == std::byte{0xff}; })) ++count;
  }
  return count;
}

}  // namespace

void Verdict::add(const Verdict& other) {
  compared += other.compared;
  wrong += other.wrong;
  worst = std::max(worst, other.worst);
}

Verdict check(const Part& part, std::size_t number, Result result, std::int64_t tokens, DType dtype, std::uint64_t seed,
              const std::vector<std::byte>& out, int ranks, int rank, bool whole) {
  const Product product = product_of(part, number, result, tokens, seed);
  const Operand like = result == Result::y ? Operand::y : result == Result::dx ? Operand::x : Operand::weight;
  const Block block = block_of(part, like, tokens, ranks, rank);
  const double sums = std::sqrt(2.0 * static_cast<double>(product.terms)) * epsilon(f32);
  // A value that was rounded once may be rounded again.
  const double rounding = epsilon(dtype) * (1 + 2 * epsilon(dtype));

  const auto rows = spread(block.rows, whole ? block.rows.count : sampled_lines);
  const auto columns = spread(block.columns, whole ? block.columns.count : sampled_lines);
  std::vector<std::vector<double>> rights;
  for (const std::int64_t column : columns) rights.push_back(product.right.line(column, product.terms));

  Verdict verdict;
  for (const std::int64_t row : rows) {
    const std::vector<double> left = product.left.line(row, product.terms);
    for (std::size_t j = 0; j < columns.size(); ++j) {
      double exact = 0;
      double magnitude = 0;
      double rounded = 0;
      for (int part_of = 0; part_of < (product.travels ? ranks : 1); ++part_of) {
        const Shard terms = product.travels ? shard_of(product.terms, ranks, part_of) : Shard{0, product.terms};
        double partial = 0;
        for (auto t = static_cast<std::size_t>(terms.begin); t < static_cast<std::size_t>(terms.begin + terms.count);
             ++t) {
          partial += left[t] * rights[j][t];
          magnitude += std::abs(left[t] * rights[j][t]);
        }
        exact += partial;
        if (product.travels) rounded += std::abs(partial);
      }
      const double allowed = sums * magnitude + rounding * (std::abs(exact) + rounded);
      const auto at =
          static_cast<std::size_t>((row - block.rows.begin) * block.columns.count + columns[j] - block.columns.begin);
      const auto got = static_cast<double>(language_model::load_scalar(out.data() + at * size_of(dtype), dtype));
      const double error = std::abs(got - exact);
      ++verdict.compared;
      if (!(error <= allowed)) ++verdict.wrong;  // also if NaN
      if (allowed > 0) verdict.worst = std::max(verdict.worst, error / allowed);
    }
  }
  if (!whole) verdict.wrong += elements_unwritten(out, size_of(dtype));
  return verdict;
}

}  // namespace tandem::transformer_layer

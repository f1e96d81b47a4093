// SPDX-License-Identifier: Apache-2.0
#include "support/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <type_traits>

#include "tandem/base/error.hpp"
#include "tandem/base/scalar.hpp"

#include "base/format.hpp"

namespace tandem::testing {
namespace {

/// Calls `body` with a value of the type that stores `dtype`.
template <typename Body> void with_storage(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32: return body(float{});
    case DType::f16: return body(Half{});
    case DType::bf16: return body(BFloat16{});
    case DType::f64: return body(double{});
    case DType::i32: return body(std::int32_t{});
    case DType::i64: return body(std::int64_t{});
    case DType::u8: return body(std::uint8_t{});
    case DType::f8e4m3: return body(Float8E4M3{});
    case DType::f8e5m2: return body(Float8E5M2{});
  }
  throw InvalidArgument(format("the fp64 reference knows no dtype number {}", static_cast<int>(dtype)));
}

template <typename T> constexpr bool is_narrow_float = std::is_class_v<T>;

template <typename T> T from_double(double value) {
  if constexpr (is_narrow_float<T>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename T> double to_double(T value) {
  if constexpr (is_narrow_float<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

double rounded(double value, DType dtype) {
  double result = 0;
  with_storage(dtype, [&](auto zero) { result = to_double(from_double<decltype(zero)>(value)); });
  return result;
}

/// Below it, the spacing of numbers no longer shrinks. Only f16's matters: the data stay far above the other dtypes'.
double smallest_normal(DType dtype) { return dtype == f16 ? 0x1p-14 : 0; }

/// Sums of these dtypes are accumulated in a wider one.
bool is_narrow(DType dtype) { return size_of(dtype) == 2; }

/// The error of rounding a sum to `dtype`. 0 if sums are accumulated in `dtype` itself: `terms` covers that rounding.
double rounding_of(double value, DType dtype) {
  return is_narrow(dtype) ? epsilon(dtype) * std::max(std::abs(value), smallest_normal(dtype)) : 0;
}

/// The error of a product to which `start` and `bias` are added one after the other, in either order, each time after
/// rounding what was there.
double on_the_way(double product, double start, double bias, DType dtype) {
  if (start == 0 && bias == 0) return 0;
  const double first = rounding_of(product, dtype);
  if (start == 0 || bias == 0) return first;
  return first + std::max(rounding_of(product + start, dtype), rounding_of(product + bias, dtype));
}

bool is_integer(DType dtype) { return epsilon(dtype) == 0; }

// GELU adds about this many roundings after the sum, which matter if K is tiny.
constexpr std::int64_t activation_terms = 8;

/// Computes in the type of its argument: fp64 for the reference, fp32 for the unfused result.
template <typename T> T activated(T x, Activation activation) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::gelu_erf: return x * T(0.5) * (T(1) + std::erf(x * T(1 / std::numbers::sqrt2)));
    case Activation::gelu_tanh: {
      const T inner = T(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x + T(0.044715) * x * x * x);
      return x * T(0.5) * (T(1) + std::tanh(inner));
    }
  }
  return x;
}

/// The activation's derivative.
double slope(double x, Activation activation) {
  switch (activation) {
    case Activation::none: return 1;
    case Activation::gelu_erf: {
      const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
    }
    case Activation::gelu_tanh: {
      const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
      const double t = std::tanh(scale * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x);
    }
  }
  return 1;
}

/// The steepest slope of GELU: the factor by which it may enlarge an error of its input.
constexpr double steepest = 1.13;

}  // namespace

std::uint64_t key(std::uint64_t seed, std::initializer_list<std::uint64_t> parts) {
  std::uint64_t mixed = random_bits(seed, 0);
  for (const std::uint64_t part : parts) mixed = random_bits(mixed ^ part, part);
  return mixed;
}

double random_value(std::uint64_t key, std::int64_t index, DType dtype) {
  const std::uint64_t bits = random_bits(key, static_cast<std::uint64_t>(index));
  if (dtype == u8) return static_cast<double>(bits % 101);
  if (is_integer(dtype)) return static_cast<double>(bits % 201) - 100;
  return rounded(static_cast<double>(bits >> 11) * 0x1p-52 - 1, dtype);
}

std::vector<double> random_values(std::uint64_t key, std::int64_t count, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = random_value(key, i, dtype);
  return values;
}

std::vector<std::byte> random_bytes(std::uint64_t key, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random_bits(key, at);
    std::memcpy(result.data() + at, &bits, std::min(sizeof bits, bytes - at));
  }
  return result;
}

// Here and in compare_bytes(), memory that other threads may write is accessed by memcpy: sanitizers intercept that
// call, although this file is not instrumented (CMakeLists.txt).
void store(std::span<const double> values, DType dtype, void* memory) {
  if (values.empty()) return;
  with_storage(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> elements(values.size());
    std::transform(values.begin(), values.end(), elements.begin(), from_double<T>);
    std::memcpy(memory, elements.data(), elements.size() * sizeof(T));
  });
}

std::vector<double> load(const void* memory, std::int64_t count, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(count));
  if (values.empty()) return values;
  with_storage(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> elements(values.size());
    std::memcpy(elements.data(), memory, elements.size() * sizeof(T));
    std::transform(elements.begin(), elements.end(), values.begin(), to_double<T>);
  });
  return values;
}

Dot dot(std::span<const double> x, std::span<const double> y) {
  Dot result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    result.sum += x[i] * y[i];
    result.magnitude += std::abs(x[i] * y[i]);
  }
  return result;
}

std::vector<double> transposed(std::span<const double> values, std::int64_t rows, std::int64_t columns) {
  std::vector<double> result(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      result[static_cast<std::size_t>(c * rows + r)] = values[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return result;
}

double Expected::allowed(std::size_t i) const {
  if (magnitude[i] == 0) return std::abs(unfused[i] - value[i]);
  // Each term is rounded twice, as a product and in the sum.
  const double sum =
      std::sqrt(2.0 * static_cast<double>(terms)) * epsilon(is_narrow(dtype) ? f32 : dtype) * magnitude[i];
  const double roundings = rounding_of(value[i], dtype) + (rounded.empty() ? 0 : rounded[i]);
  // A rounded value may be rounded again.
  const double again = is_narrow(dtype) ? 1 + 2 * epsilon(dtype) : 1;
  return std::abs(unfused[i] - value[i]) + (sum + roundings) * again + (tf32 ? of_tf32(i) : 0.0) +
         summed_within * magnitude[i];
}

double Expected::of_tf32(std::size_t i) const {
  // Two operands, each truncated by up to 2^-10 of its value: with few terms all errors may add up. With many, their
  // mean scales the whole sum, and the remainder grows as the square root of their number: this allows 14 standard
  // deviations of it.
  constexpr double most = 0x1p-9;
  return most * magnitude[i] * std::min(1.0, 4.0 / std::sqrt(static_cast<double>(terms))) +
         most / 2 * std::abs(value[i]);
}

Expected expected_sum(std::span<const std::vector<double>> sources, DType dtype) {
  Expected expected;
  expected.dtype = dtype;
  expected.terms = static_cast<std::int64_t>(sources.size());
  const std::size_t count = sources.empty() ? 0 : sources[0].size();
  const bool in_float = dtype == f32 || dtype == f16 || dtype == bf16;
  expected.value.reserve(count);
  expected.magnitude.reserve(count);
  expected.unfused.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    double exact = sources[0][i];
    double magnitude = std::abs(exact);
    auto narrow = static_cast<float>(exact);
    for (const std::vector<double>& source : sources.subspan(1)) {
      exact += source[i];
      magnitude += std::abs(source[i]);
      narrow += static_cast<float>(source[i]);
    }
    expected.value.push_back(exact);
    expected.magnitude.push_back(magnitude);
    expected.unfused.push_back(in_float ? rounded(static_cast<double>(narrow), dtype) : exact);
  }
  return expected;
}

Expected expected_product(const Product& product) {
  const auto m = static_cast<std::size_t>(product.m);
  const auto n = static_cast<std::size_t>(product.n);
  const auto k = static_cast<std::size_t>(product.k);
  const std::vector<std::int64_t> parts = product.parts.empty() ? std::vector<std::int64_t>{product.k} : product.parts;
  if (product.a.size() != m * k || product.b.size() != k * n ||
      std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) != product.k) {
    throw InvalidArgument(format("reference product [{}, {}] x [{}, {}]: {} and {} elements were given", m, k, k, n,
                                 product.a.size(), product.b.size()));
  }

  Expected expected;
  expected.dtype = product.dtype;
  expected.tf32 = product.tf32;
  expected.summed_within = product.summed_within;
  expected.terms = product.k + (product.start.empty() ? 0 : 1) + (product.bias.empty() ? 0 : 1) +
                   (product.activation == Activation::none ? 0 : activation_terms);
  expected.value.resize(m * n);
  expected.unfused.resize(m * n);
  expected.magnitude.resize(m * n);
  expected.rounded.resize(m * n);

  const bool travels = parts.size() > 1;
  const std::vector<float> narrow_b(product.b.begin(), product.b.end());
  const auto alpha = static_cast<float>(product.alpha);
  std::vector<double> exact(n);
  std::vector<double> exact_part(n);
  std::vector<double> magnitude(n);
  std::vector<float> sum(n);
  std::vector<float> part(n);
  for (std::size_t i = 0; i < m; ++i) {
    std::ranges::fill(exact, 0.0);
    std::ranges::fill(magnitude, 0.0);
    std::ranges::fill(sum, 0.0F);
    const auto start = [&](std::size_t j) {
      return static_cast<float>(product.beta) * static_cast<float>(product.start[i * n + j]);
    };
    std::size_t at = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      std::ranges::fill(part, 0.0F);
      std::ranges::fill(exact_part, 0.0);
      for (const std::size_t end = at + static_cast<std::size_t>(parts[p]); at < end; ++at) {
        const double a = product.a[i * k + at];
        const auto narrow_a = static_cast<float>(a);
        const double* b = product.b.data() + at * n;
        const float* narrow = narrow_b.data() + at * n;
        for (std::size_t j = 0; j < n; ++j) {
          exact_part[j] += a * b[j];
          magnitude[j] += std::abs(a * b[j]);
          part[j] += narrow_a * narrow[j];
        }
      }
      const bool starts = !product.start.empty() && !product.owners.empty() && product.owners[i] == p;
      for (std::size_t j = 0; j < n; ++j) {
        exact[j] += exact_part[j];
        const float scaled = alpha * part[j] + (starts ? start(j) : 0.0F);
        if (travels) {
          const double sent = product.alpha * exact_part[j] + (starts ? product.beta * product.start[i * n + j] : 0);
          expected.rounded[i * n + j] += rounding_of(sent, product.travels);
          if (starts && product.rounds_between) {
            expected.rounded[i * n + j] += rounding_of(product.alpha * exact_part[j], product.travels);
          }
        }
        sum[j] += travels ? static_cast<float>(rounded(static_cast<double>(scaled), product.travels)) : scaled;
      }
    }
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t at_element = i * n + j;
      double& rounded_before = expected.rounded[at_element];
      const double multiplied = product.alpha * exact[j];
      const double added = product.start.empty() ? 0.0 : product.beta * product.start[at_element];
      const double bias = product.bias.empty() ? 0.0 : product.bias[j];
      if (product.rounds_between && !travels) rounded_before += on_the_way(multiplied, added, bias, product.dtype);
      const double value = multiplied + added + bias;
      float unfused = sum[j];
      if (!product.start.empty() && product.owners.empty()) unfused += start(j);
      unfused += static_cast<float>(bias);
      expected.magnitude[at_element] = std::abs(product.alpha) * magnitude[j] + std::abs(added) + std::abs(bias);
      if (product.gradient_at.empty()) {
        if (product.activation != Activation::none) {
          rounded_before = steepest * (rounded_before + rounding_of(value, product.dtype));
        }
        expected.value[at_element] = activated(value, product.activation);
        expected.unfused[at_element] =
            rounded(static_cast<double>(activated(unfused, product.activation)), product.dtype);
      } else {
        const double factor = slope(product.gradient_at[at_element], product.activation);
        rounded_before = steepest * rounded_before + rounding_of(value * factor, product.dtype);
        expected.value[at_element] = value * factor;
        expected.unfused[at_element] =
            rounded(rounded(static_cast<double>(unfused), product.dtype) * factor, product.dtype);
      }
    }
  }
  return expected;
}

Comparison compare(const Expected& expected, const void* out) {
  Comparison comparison;
  const std::vector<double> got = load(out, static_cast<std::int64_t>(expected.value.size()), expected.dtype);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = expected.allowed(i);
    if (std::abs(got[i] - expected.value[i]) <= allowed) continue;  // false for NaN as well
    if (comparison.wrong++ == 0) {
      comparison = {1, static_cast<std::int64_t>(i), got[i], expected.value[i], allowed};
    }
  }
  return comparison;
}

Comparison compare_bytes(std::span<const std::byte> expected, const void* out) {
  Comparison comparison;
  if (expected.empty()) return comparison;
  std::vector<std::byte> got(expected.size());
  std::memcpy(got.data(), out, got.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (got[i] == expected[i]) continue;
    if (comparison.wrong++ == 0) {
      comparison = {1, static_cast<std::int64_t>(i), std::to_integer<int>(got[i]) + 0.0,
                    std::to_integer<int>(expected[i]) + 0.0, 0};
    }
  }
  return comparison;
}

std::string to_string(const Comparison& comparison) {
  if (comparison.wrong == 0) return "all elements right";
  return format("{} elements wrong, first [{}]: got {:.9g}, wanted {:.9g} ± {:.3g}", comparison.wrong, comparison.first,
                comparison.got, comparison.wanted, comparison.allowed);
}

}  // namespace tandem::testing

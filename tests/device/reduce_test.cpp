// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/reduce.hpp"

#include <array>
#include <bit>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "tandem/base/error.hpp"

#include "device/on_device.hpp"

namespace tandem::testing {
namespace {

constexpr double eps32 = 0x1p-24;
// The spacing of f16's subnormal numbers: rounding may cost that much, however small the value.
constexpr double tiny = 0x1p-24;

class ReduceTest : public OnDevice {
 protected:
  // Reduces random sources on the device, and compares every element of every destination with an fp64 reference.
  template <typename T, typename Out>
  void check(DType dtype, DType out_dtype, std::size_t source_count, std::size_t destination_count, std::int64_t count,
             bool in_place, bool with_bias, Activation activation) {
    SCOPED_TRACE(::testing::Message() << source_count << " sources of " << count << " " << name(dtype) << " into "
                                      << destination_count << " of " << name(out_dtype)
                                      << (in_place ? ", in place" : "") << (with_bias ? ", bias" : "")
                                      << ", activation " << name(activation));
    const auto n = static_cast<std::size_t>(count);
    std::vector<std::vector<T>> sources;
    std::vector<Buffer> memory;
    std::vector<const void*> source_pointers;
    for (std::size_t s = 0; s < source_count; ++s) {
      sources.push_back(random_values<T>(random(), n));
      memory.push_back(upload(sources.back()));
      source_pointers.push_back(memory.back().data());
    }
    std::vector<const Buffer*> destinations;
    std::vector<void*> destination_pointers;
    memory.reserve(memory.size() + destination_count);
    for (std::size_t d = 0; d < destination_count; ++d) {
      if (in_place && d < source_count) {
        destinations.push_back(&memory[source_count - 1 - d]);
      } else {
        memory.push_back(upload(std::vector<unsigned char>(n * sizeof(Out), 0xff)));
        destinations.push_back(&memory.back());
      }
      destination_pointers.push_back(destinations.back()->data());
    }
    const std::int64_t columns = random_between(1, 700);
    const std::vector<Out> bias = random_values<Out>(random(), static_cast<std::size_t>(columns));
    const Buffer bias_memory = upload(bias);
    Stream stream(device());
    device().reduce(stream, {.sources = source_pointers,
                             .destinations = destination_pointers,
                             .count = count,
                             .dtype = dtype,
                             .out_dtype = out_dtype,
                             .bias = with_bias ? bias_memory.data() : nullptr,
                             .columns = columns,
                             .activation = activation});
    stream.synchronize();
    const std::vector<Out> first = download<Out>(*destinations[0]);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0;
      double magnitude = 0;
      for (const std::vector<T>& source : sources) {
        sum += to_double(source[i]);
        magnitude += std::abs(to_double(source[i]));
      }
      if (with_bias) sum += to_double(bias[i % static_cast<std::size_t>(columns)]);
      if (with_bias) magnitude += std::abs(to_double(bias[i % static_cast<std::size_t>(columns)]));
      const double expected = gelu(activation, sum);
      const double terms = static_cast<double>(source_count) + 2;
      const double unit = dtype == f64 ? 0x1p-53 : eps32;
      const double work = activation == Activation::none ? terms : terms + 8;
      const double bound = std::is_integral_v<T> ? 0.0
                                                 : work * unit * magnitude + epsilon(out_dtype) * std::abs(expected) +
                                                       (out_dtype == f16 ? tiny : 0.0);
      ASSERT_LE(std::abs(to_double(first[i]) - expected), bound) << "element " << i << ", expected " << expected;
    }
    for (const Buffer* destination : destinations) {
      const auto other = download<std::byte>(*destination);
      ASSERT_TRUE(other == download<std::byte>(*destinations[0])) << "destinations differ";
    }
  }

  [[nodiscard]] std::int64_t any_count() {
    const std::array<std::int64_t, 10> edges{0, 1, 2, 7, 8, 63, 2047, 2048, 2049, 4100};
    return random_between(0, 1) == 0 ? edges[static_cast<std::size_t>(random_between(0, 9))]
                                     : random_between(1, 20'000);
  }
};

TEST_P(ReduceTest, SumsEveryDtype) {
  for (const DType dtype : {f32, f16, bf16, f64, i32, i64, u8}) {
    with_storage(dtype, [&]<typename T>(T) {
      for (std::size_t sources = 1; sources <= 9; ++sources) {
        const auto destinations = static_cast<std::size_t>(random_between(1, 4));
        check<T, T>(dtype, dtype, sources, destinations, any_count(), random_between(0, 1) == 1, false,
                    Activation::none);
      }
    });
    if (HasFatalFailure()) return;
  }
}

TEST_P(ReduceTest, SumsNarrowFloatsIntoFp32) {
  for (int round = 0; round < 10; ++round) {
    check<Half, float>(f16, f32, static_cast<std::size_t>(random_between(1, 8)), 2, any_count(), false, round % 2 == 0,
                       Activation::none);
    check<BFloat16, float>(bf16, f32, static_cast<std::size_t>(random_between(1, 8)), 1, any_count(), false,
                           round % 2 == 0, Activation::none);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ReduceTest, RefusesWhatItHasNoSumsOfAtOnce) {
  const Buffer source = memory(64);
  const Buffer sum = memory(64);
  const std::array<const void*, 1> sources{source.data()};
  const std::array<void*, 1> destinations{sum.data()};
  const Stream stream(device());
  for (const auto& [dtype, out_dtype] :
       {std::pair{f64, f32}, {i64, f32}, {i32, f32}, {u8, f32}, {f32, bf16}, {f8e4m3, f8e4m3}, {f8e5m2, f8e5m2}}) {
    const Reduction reduction{
        .sources = sources, .destinations = destinations, .count = 4, .dtype = dtype, .out_dtype = out_dtype};
    EXPECT_THROW(device().reduce(stream, reduction), Unsupported) << name(dtype) << " into " << name(out_dtype);
  }
  stream.synchronize();
}

TEST_P(ReduceTest, AddsBiasAndActivates) {
  for (const Activation activation : {Activation::none, Activation::gelu_erf, Activation::gelu_tanh}) {
    for (const DType dtype : {f32, f16, bf16, f64}) {
      with_storage(dtype, [&]<typename T>(T) {
        for (int round = 0; round < 4; ++round) {
          if constexpr (std::is_floating_point_v<T> || sizeof(T) == 2) {
            check<T, T>(dtype, dtype, static_cast<std::size_t>(random_between(1, 5)), 1, any_count(), round % 2 == 0,
                        round < 3, activation);
          }
        }
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ReduceTest, TakesAsManyOperandsAsItSays) {
  check<float, float>(f32, f32, max_reduce_operands, max_reduce_operands, 3000, false, false, Activation::none);
  check<BFloat16, BFloat16>(bf16, bf16, max_reduce_operands, 1, 3000, false, false, Activation::none);
}

// Large enough for the host to use non-temporal stores, except in place, where the destination was just read.
TEST_P(ReduceTest, SumsMuch) {
  constexpr std::int64_t floats = (4 << 20) / sizeof(float) + 1003;
  check<float, float>(f32, f32, 2, 1, floats, false, false, Activation::none);
  check<float, float>(f32, f32, 4, 3, floats, false, false, Activation::none);
  check<float, float>(f32, f32, 3, 2, floats, true, false, Activation::none);
  check<float, float>(f32, f32, 5, 1, floats, false, true, Activation::gelu_erf);
  check<BFloat16, BFloat16>(bf16, bf16, 2, 2, 2 * floats, true, false, Activation::none);
}

TEST_P(ReduceTest, TheSameSourcesGiveTheSameBits) {
  // Into one destination or two, and wherever an element lies in a block: every rank must get the same bits.
  const auto n = std::size_t{5000};
  for (std::size_t source_count = 2; source_count <= 5; ++source_count) {
    std::vector<Buffer> sources;
    std::vector<const void*> pointers;
    for (std::size_t s = 0; s < source_count; ++s) {
      sources.push_back(upload(random_values<float>(random(), n)));
      pointers.push_back(sources.back().data());
    }
    const Buffer whole = memory(n * sizeof(float));
    const Buffer second = memory(n * sizeof(float));
    const Buffer pieces = memory(n * sizeof(float));
    Stream stream(device());
    std::array<void*, 1> one{whole.data()};
    device().reduce(stream, {.sources = pointers, .destinations = one, .count = static_cast<std::int64_t>(n)});
    for (std::size_t at = 0; at < n;) {
      const std::size_t piece = std::min(n - at, static_cast<std::size_t>(random_between(1, 300)));
      std::vector<const void*> parts;
      for (const Buffer& source : sources) parts.push_back(source.data_as<float>() + at);
      std::array<void*, 2> two{pieces.data_as<float>() + at, second.data_as<float>() + at};
      device().reduce(stream, {.sources = parts, .destinations = two, .count = static_cast<std::int64_t>(piece)});
      at += piece;
    }
    stream.synchronize();
    EXPECT_EQ(download<std::uint32_t>(whole), download<std::uint32_t>(pieces));
    EXPECT_EQ(download<std::uint32_t>(whole), download<std::uint32_t>(second));
  }
}

TANDEM_ON_EACH_DEVICE(ReduceTest);

class MapTest : public OnDevice {
 protected:
  template <typename In, typename Out> void check_cast(DType from, DType to, float alpha) {
    SCOPED_TRACE(::testing::Message() << name(from) << " to " << name(to) << ", times " << alpha);
    std::vector<In> x = random_values<In>(random(), 70'001);
    // Random bits cover the whole range: subnormals, overflow, ties, infinities and NaN.
    for (std::size_t i = 0; i < 60'000; ++i) {
      if constexpr (std::is_class_v<In>) {
        x[i].bits = static_cast<decltype(x[i].bits)>(random()());
      } else {
        x[i] = std::bit_cast<In>(static_cast<std::uint32_t>(random()()));
        if (i % 3 == 0) x[i] = static_cast<float>(Half(x[i])) + (i % 2 == 0 ? 0x1p-12F : 0.0F);
      }
    }
    const Buffer source = upload(x);
    const Buffer target = memory(x.size() * sizeof(Out));
    Stream stream(device());
    device().map(stream, {.kind = MapKind::cast,
                          .out = target.data(),
                          .x = source.data(),
                          .count = static_cast<std::int64_t>(x.size()),
                          .dtype = from,
                          .out_dtype = to,
                          .alpha = alpha});
    stream.synchronize();
    const std::vector<Out> out = download<Out>(target);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Out expected = Out(alpha * static_cast<float>(x[i]));
      if (std::isnan(to_double(expected))) {
        ASSERT_TRUE(std::isnan(to_double(out[i]))) << i;
      } else {
        ASSERT_EQ(to_double(out[i]), to_double(expected)) << i << ": " << to_double(x[i]);
      }
    }
  }

  // Values that reach far to both sides of the range where GELU is curved.
  template <typename T> std::vector<T> spread(std::size_t n) {
    std::vector<T> x = random_values<T>(random(), n);
    for (std::size_t i = 0; i < n; i += 2) x[i] = T(static_cast<float>(to_double(x[i])) * 6.0F);
    return x;
  }

  template <typename T> void check_activation(DType dtype, Activation activation, bool grad, bool with_bias) {
    SCOPED_TRACE(::testing::Message() << name(activation) << (grad ? "'s gradient" : "") << " of " << name(dtype)
                                      << (with_bias ? " with bias" : ""));
    const std::int64_t columns = random_between(1, 900);
    const std::size_t n = 30'011;
    const std::vector<T> x = spread<T>(n);
    const std::vector<T> y = random_values<T>(random(), n);
    const std::vector<T> bias = random_values<T>(random(), static_cast<std::size_t>(columns));
    const Buffer x_memory = upload(x);
    const Buffer y_memory = upload(y);
    const Buffer bias_memory = upload(bias);
    const Buffer target = upload(std::vector<unsigned char>(n * sizeof(T), 0xff));
    Stream stream(device());
    device().map(stream, {.kind = grad ? MapKind::activate_grad : MapKind::activate,
                          .out = target.data(),
                          .x = x_memory.data(),
                          .y = y_memory.data(),
                          .bias = with_bias ? bias_memory.data() : nullptr,
                          .count = static_cast<std::int64_t>(n),
                          .columns = columns,
                          .dtype = dtype,
                          .out_dtype = dtype,
                          .activation = activation});
    stream.synchronize();
    const std::vector<T> out = download<T>(target);
    for (std::size_t i = 0; i < n; ++i) {
      const double b = with_bias ? to_double(bias[i % static_cast<std::size_t>(columns)]) : 0.0;
      const double v = to_double(x[i]) + b;
      const double expected = grad ? to_double(y[i]) * gelu_grad(activation, v) : gelu(activation, v);
      const double scale = grad ? std::abs(to_double(y[i])) : std::abs(v);
      const double bound =
          8 * eps32 * (scale + std::abs(b)) + epsilon(dtype) * std::abs(expected) + (dtype == f16 ? tiny : 0x1p-126);
      ASSERT_LE(std::abs(to_double(out[i]) - expected), bound) << "at " << v << ", expected " << expected;
    }
  }
};

TEST_P(MapTest, Casts) {
  for (const DType from : {f32, f16, bf16, f8e4m3, f8e5m2}) {
    for (const DType to : {f32, f16, bf16, f8e4m3, f8e5m2}) {
      if (is_float8(from) && is_float8(to)) continue;
      with_storage(from, [&]<typename In>(In) {
        with_storage(to, [&]<typename Out>(Out) {
          if constexpr (sizeof(In) <= 4 && sizeof(Out) <= 4 && !std::is_integral_v<In> && !std::is_integral_v<Out>) {
            for (const float alpha : {1.0F, 0.375F}) check_cast<In, Out>(from, to, alpha);
          }
        });
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(MapTest, ActivatesForwardAndBackward) {
  for (const Activation activation : {Activation::none, Activation::gelu_erf, Activation::gelu_tanh}) {
    for (const bool grad : {false, true}) {
      for (const bool bias : {false, true}) {
        check_activation<float>(f32, activation, grad, bias);
        check_activation<Half>(f16, activation, grad, bias);
        check_activation<BFloat16>(bf16, activation, grad, bias);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(MapTest, AddsInPlace) {
  const std::size_t n = 10'007;
  const std::vector<float> x = random_values<float>(random(), n);
  const std::vector<float> y = random_values<float>(random(), n);
  const Buffer x_memory = upload(x);
  const Buffer y_memory = upload(y);
  Stream stream(device());
  device().map(stream, {.kind = MapKind::add,
                        .out = x_memory.data(),
                        .x = x_memory.data(),
                        .y = y_memory.data(),
                        .count = static_cast<std::int64_t>(n),
                        .alpha = 0.5F,
                        .beta = -3.0F});
  stream.synchronize();
  const std::vector<float> out = download<float>(x_memory);
  for (std::size_t i = 0; i < n; ++i) {
    const double expected = 0.5 * to_double(x[i]) - 3.0 * to_double(y[i]);
    const double magnitude = 0.5 * std::abs(to_double(x[i])) + 3.0 * std::abs(to_double(y[i]));
    ASSERT_LE(std::abs(to_double(out[i]) - expected), 3 * eps32 * magnitude) << i;
  }
}

TEST_P(MapTest, OnlyCastsStoreAnotherDType) {
  const std::vector<BFloat16> x = random_values<BFloat16>(random(), 1000);
  const Buffer in = upload(x);
  const std::vector<BFloat16> two(2000, BFloat16(7.0F));
  const Buffer out = upload(two);
  const Stream stream(device());
  device().map(stream, {.kind = MapKind::add,
                        .out = out.data(),
                        .x = in.data(),
                        .y = in.data(),
                        .count = 1000,
                        .dtype = bf16,
                        .beta = 0.0F});
  stream.synchronize();
  const std::vector<BFloat16> stored = download<BFloat16>(out);
  for (std::size_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(to_double(stored[i]), i < 1000 ? to_double(x[i]) : 7.0) << i;
  }
}

TEST_P(MapTest, RefusesOtherDTypesAtOnce) {
  const Buffer x = memory(64);
  const Buffer out = memory(64);
  const Stream stream(device());
  for (const auto& [dtype, out_dtype] : {std::pair{f64, f64}, {i32, i32}, {f32, i64}, {u8, f32}}) {
    const Map map{
        .kind = MapKind::cast, .out = out.data(), .x = x.data(), .count = 4, .dtype = dtype, .out_dtype = out_dtype};
    EXPECT_THROW(device().map(stream, map), Unsupported) << name(dtype) << " into " << name(out_dtype);
  }
  EXPECT_THROW(
      device().column_sum(stream, {.out = out.data_as<float>(), .x = x.data(), .rows = 1, .columns = 4, .dtype = f64}),
      Unsupported);
  stream.synchronize();
}

TANDEM_ON_EACH_DEVICE(MapTest);

class ColumnSumTest : public OnDevice {};

TEST_P(ColumnSumTest, SumsColumns) {
  for (const DType dtype : {f32, f16, bf16}) {
    for (const bool accumulate : {false, true}) {
      with_storage(dtype, [&]<typename T>(T) {
        if constexpr (sizeof(T) <= 4 && !std::is_integral_v<T>) {
          for (int round = 0; round < 5; ++round) {
            const auto rows = static_cast<std::size_t>(round == 0 ? 0 : random_between(1, 300));
            const auto columns = static_cast<std::size_t>(round == 1 ? 1 : random_between(1, 5000));
            const std::vector<T> x = random_values<T>(random(), rows * columns);
            const std::vector<float> old = random_values<float>(random(), columns);
            const Buffer x_memory = upload(x);
            const Buffer out_memory =
                upload(accumulate ? old : std::vector<float>(columns, std::numeric_limits<float>::quiet_NaN()));
            Stream stream(device());
            device().column_sum(stream, {.out = out_memory.data_as<float>(),
                                         .x = x_memory.data(),
                                         .rows = static_cast<std::int64_t>(rows),
                                         .columns = static_cast<std::int64_t>(columns),
                                         .dtype = dtype,
                                         .accumulate = accumulate});
            stream.synchronize();
            const std::vector<float> out = download<float>(out_memory);
            for (std::size_t c = 0; c < columns; ++c) {
              double sum = accumulate ? to_double(old[c]) : 0.0;
              double magnitude = std::abs(sum);
              for (std::size_t r = 0; r < rows; ++r) {
                sum += to_double(x[r * columns + c]);
                magnitude += std::abs(to_double(x[r * columns + c]));
              }
              const double bound = std::sqrt(static_cast<double>(rows) + 1) * 2 * eps32 * magnitude;
              ASSERT_LE(std::abs(to_double(out[c]) - sum), bound) << rows << " rows, column " << c << " of " << columns;
            }
          }
        }
      });
      if (HasFatalFailure()) return;
    }
  }
}

TANDEM_ON_EACH_DEVICE(ColumnSumTest);

}  // namespace
}  // namespace tandem::testing

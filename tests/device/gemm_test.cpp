// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/gemm.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tandem/base/error.hpp"

#include "device/gemm_fixture.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

TEST(PlannedRows, FallFromAllByQuartersAndHalves) {
  EXPECT_EQ(planned_rows(1024), (std::vector<std::int64_t>{1024, 768, 512, 384, 256, 192, 128, 96, 64, 48,
                                                           32,   24,  16,  12,  8,   6,   4,   3,  2,  1}));
  EXPECT_EQ(planned_rows(5), (std::vector<std::int64_t>{5, 4, 2, 1})) << "a quarter of rows that it does not divide";
  EXPECT_EQ(planned_rows(1), std::vector<std::int64_t>{1});
  EXPECT_TRUE(planned_rows(0).empty());
}

TEST_P(GemmTest, WhatIsAddedMayLieElsewhere) {
  apart_ = true;
  check_random(8, 70);
  for (const DType dtype : {f32, bf16}) {
    GemmSpec spec{.m = 300, .n = 130, .k = 200, .transpose_b = true, .dtype = dtype, .out_dtype = dtype, .beta = 1.0F};
    check_pieces(spec, {100, 77, 123});
    spec.bias = true;
    spec.activation = Activation::gelu_erf;
    check_pieces(spec, {100, 77, 123});
    check(spec, 300, 0);
  }
}

TEST_P(GemmTest, AnAuxiliaryGoesWithWhatDHolds) {
  const std::unique_ptr<Gemm> gemm =
      device().gemm({.m = 4, .n = 4, .k = 4, .activation = Activation::gelu_tanh, .auxiliary = Auxiliary::output});
  const Buffer memory = upload(std::vector<float>(64));
  const Stream stream(device());
  expect_error<InvalidArgument>(
      [&] {
        gemm->run(stream, {.a = memory.data(),
                           .b = memory.data(),
                           .d = memory.data(),
                           .c = memory.data(),
                           .aux = memory.data(),
                           .beta = 1.0F});
      },
      {"a C of its own", "auxiliary output"});
}

TEST_P(GemmTest, SizesThatNoMemoryHasAreNoReasonToCrash) {
  if (!on_host()) GTEST_SKIP() << "CUDA runs the GEMM when it is planned, and so needs its memory";
  constexpr std::int64_t many = std::int64_t{1} << 32;
  for (const GemmSpec& spec : {GemmSpec{.m = 1, .n = 1, .k = many, .transpose_b = true},
                               GemmSpec{.m = 1, .n = many, .k = 1, .transpose_b = true}}) {
    EXPECT_NO_THROW(EXPECT_NE(device().gemm(spec)->describe(), ""));
  }
}

TEST_P(GemmTest, IsRightForRandomShapes) { check_random(12, 90); }

TEST_P(GemmTest, IsRightByEachOfItsAlgorithms) {
  const GemmSpec shapes[] = {{.m = 136, .n = 72, .k = 264, .beta = 0.5F},
                             {.m = 16, .n = 24, .k = 3000, .bias = true},  // k is split
                             {.m = 67, .n = 41, .k = 53, .bias = true, .activation = Activation::gelu_tanh}};
  for (GemmSpec spec : shapes) {
    for (const int layout : {0, 1, 2, 3}) {
      for (const DType dtype : {f32, f16, bf16}) {
        spec.transpose_a = (layout & 1) != 0;
        spec.transpose_b = (layout & 2) != 0;
        spec.dtype = dtype;
        spec.out_dtype = layout == 3 ? f32 : dtype;
        const std::vector<std::string> names = device().gemm(spec)->algorithms(spec.m);
        // For 16-bit operands with odd leading dimensions the library may offer none.
        if (!device().has_gemm_algorithms() || dtype == f32) {
          EXPECT_EQ(!names.empty(), device().has_gemm_algorithms()) << text(spec);
        }
        for (const std::string& name : names) {
          SCOPED_TRACE(name);
          algorithms_ = {{.m = spec.m, .name = name}};
          expect_says(device().gemm(spec, algorithms_)->describe(), {name, "tuned for m = " + std::to_string(spec.m)});
          check(spec);
          check(spec, spec.m - 3, spec.k - 8);  // extents that the algorithm may not support
          if (HasFatalFailure()) return;
        }
        algorithms_.clear();
      }
    }
  }
}

TEST_P(GemmTest, NamesItsAlgorithmsForEveryone) {
  const GemmSpec spec{.m = 256, .n = 128, .k = 512, .transpose_b = true, .dtype = bf16, .out_dtype = bf16};
  GemmSpec half = spec;
  half.m = 128;
  const auto gemm = device().gemm(spec);
  const auto another = open_device(device().id(), options());
  EXPECT_EQ(gemm->algorithms(256).empty(), !device().has_gemm_algorithms());
  EXPECT_EQ(gemm->algorithms(256), another->gemm(spec)->algorithms(256));
  EXPECT_EQ(gemm->algorithms(128), another->gemm(half)->algorithms(128));
  EXPECT_TRUE(gemm->algorithms(0).empty());
  if (!device().has_gemm_algorithms()) return;
  // Algorithms for pieces only, then for pieces and for the whole.
  std::vector<GemmAlgorithm> algorithms{{.m = 128, .name = another->gemm(half)->algorithms(128).back()}};
  expect_says(device().gemm(spec, algorithms)->describe(), {"tuned for m = 128,"});
  algorithms.insert(algorithms.begin(), {.m = 256, .name = gemm->algorithms(256).back()});
  expect_says(device().gemm(spec, algorithms)->describe(), {algorithms[0].name, "tuned for m = 256, 128,"});
}

TEST_P(GemmTest, RefusesAlgorithmsThatAreNotOffered) {
  const GemmSpec spec{.m = 64, .n = 64, .k = 64};
  const auto gemm = device().gemm(spec);
  EXPECT_THROW(static_cast<void>(gemm->algorithms(65)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(gemm->algorithms(-1)), InvalidArgument);
  const auto make = [&](std::int64_t m, const std::string& name) {
    const GemmAlgorithm algorithm{.m = m, .name = name};
    static_cast<void>(device().gemm(spec, {&algorithm, 1}));
  };
  expect_error<InvalidArgument>([&] { make(64, "algo 7 of telepathy"); }, {"algo 7 of telepathy", "m = 64"});
  if (!device().has_gemm_algorithms()) return;
  const std::string name = gemm->algorithms(64).front();
  expect_error<InvalidArgument>([&] { make(64, name + "0"); }, {name + "0"});
  expect_error<InvalidArgument>([&] { make(40, name); }, {"64", "three quarters", "half"});
}

TEST_P(GemmTest, LeavesMultiprocessorsToOthers) {
  GemmSpec spec{.m = 1030, .n = 520, .k = 264, .transpose_b = true, .dtype = bf16, .out_dtype = bf16};
  for (const int sms : {1, 24}) {
    spec.leave_sms = sms;
    check(spec);
    if (HasFatalFailure()) return;
  }
  const auto leave = [&](int sms) {
    spec.leave_sms = sms;
    return device().gemm(spec)->describe();
  };
  expect_error<InvalidArgument>([&] { leave(-1); }, {"leave -1 SMs", "0 or more"});
  if (on_host()) return;
  expect_says(leave(24), {"on ", " of ", " SMs, workspace"});
  expect_error<InvalidArgument>([&] { leave(1'000'000); }, {"leave 1000000 SMs", "at most"});
}

TEST_P(GemmTest, IsRightAcrossPanels) {
  // Slightly more than a multiple of the panels (256, 512, 512) in which the host widens 16-bit operands.
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const DType dtype : {f32, bf16}) {
        check({.m = 263,
               .n = 517,
               .k = 1029,
               .transpose_a = transpose_a,
               .transpose_b = transpose_b,
               .dtype = dtype,
               .out_dtype = dtype,
               .bias = true,
               .activation = Activation::gelu_tanh,
               .beta = 0.5F});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(GemmTest, TakesNothingAtAll) {
  for (const DType dtype : {f32, bf16}) {
    const GemmSpec spec{.m = 5, .n = 7, .k = 9, .dtype = dtype, .out_dtype = dtype, .bias = true, .beta = 0.5F};
    check(spec, 5, 0);
    check(spec, 0, 9);
    check(spec, 0, 0);
    check({.m = 0, .n = 7, .k = 9, .dtype = dtype, .out_dtype = dtype});
    check({.m = 5, .n = 0, .k = 9, .dtype = dtype, .out_dtype = dtype});
    check({.m = 5, .n = 7, .k = 0, .dtype = dtype, .out_dtype = dtype});
    check(
        {.m = 5, .n = 7, .k = 0, .dtype = dtype, .out_dtype = dtype, .bias = true, .activation = Activation::gelu_erf});
  }
}

// Compares with separate GEMM and map operations, bit by bit. The linear layers' tests compare the sums with fp64.
TEST_P(GemmTest, KeepsWhatItActivatesAndGoesBackThroughIt) {
  constexpr std::int64_t m = 37;
  constexpr std::int64_t n = 53;
  constexpr auto elements = static_cast<std::size_t>(m * n);
  const auto check_kept = [&]<typename T>(DType dtype, Activation activation, T) {
    for (const std::int64_t k : {0, 29}) {
      for (const float beta : {0.0F, 0.5F}) {
        const Buffer a = upload(random_values<T>(random(), static_cast<std::size_t>(m * 29)));
        const Buffer b = upload(random_values<T>(random(), static_cast<std::size_t>(n * 29)));
        const Buffer start = upload(random_values<T>(random(), elements));
        const Buffer bias = upload(random_values<T>(random(), static_cast<std::size_t>(n)));
        const auto d = std::array{memory(start.bytes()), memory(start.bytes()), memory(start.bytes())};
        const Buffer aux = memory(start.bytes());
        const Buffer mapped = memory(start.bytes());
        Stream stream(device());
        for (const Buffer& each : d) {
          device().copy(stream, {.dst = each.data(), .src = start.data(), .bytes = each.bytes()});
        }
        GemmSpec spec{.m = m, .n = n, .k = 29, .dtype = dtype, .out_dtype = dtype, .bias = true, .beta = beta};
        const auto run = [&](Auxiliary auxiliary, const Buffer& into) {
          spec.activation = auxiliary == Auxiliary::none ? Activation::none : activation;
          spec.auxiliary = auxiliary;
          device().gemm(spec)->run(stream, {.a = a.data(),
                                            .b = b.data(),
                                            .d = into.data(),
                                            .bias = bias.data(),
                                            .aux = auxiliary == Auxiliary::none ? nullptr : aux.data(),
                                            .m = m,
                                            .k = k});
        };
        const auto expect_mapped = [&](MapKind kind, const Buffer& x, const void* y, const Buffer& result) {
          device().map(stream, {.kind = kind,
                                .out = mapped.data(),
                                .x = x.data(),
                                .y = y,
                                .count = m * n,
                                .dtype = dtype,
                                .out_dtype = dtype,
                                .activation = activation});
          stream.synchronize();
          const std::vector<T> got = download<T>(result);
          const std::vector<T> wanted = download<T>(mapped);
          EXPECT_EQ(std::memcmp(got.data(), wanted.data(), result.bytes()), 0) << text(spec);
        };
        run(Auxiliary::output, d[0]);
        expect_mapped(MapKind::activate, aux, nullptr, d[0]);
        run(Auxiliary::none, d[1]);
        run(Auxiliary::gradient, d[2]);
        expect_mapped(MapKind::activate_grad, aux, d[1].data(), d[2]);
      }
    }
  };
  for (const Activation activation : {Activation::gelu_erf, Activation::gelu_tanh}) {
    check_kept(f32, activation, float{});
    check_kept(f16, activation, Half{});
    check_kept(bf16, activation, BFloat16{});
  }
}

// Rows aligned to 16 bytes, 16-bit results and gelu_tanh: a library may fuse these, and activate unrounded sums.
TEST_P(GemmTest, KeepsWhatItActivatesAlsoInALibrarysEpilogue) {
  constexpr std::int64_t m = 300;
  constexpr std::int64_t n = 136;
  constexpr std::int64_t k = 64;
  const auto check_kept = [&]<typename T>(DType dtype, double unit, bool with_bias, float beta, T) {
    constexpr auto elements = static_cast<std::size_t>(m * n);
    const Buffer a = upload(random_values<T>(random(), static_cast<std::size_t>(m * k)));
    const Buffer b = upload(random_values<T>(random(), static_cast<std::size_t>(n * k)));
    const Buffer bias = upload(random_values<T>(random(), static_cast<std::size_t>(n)));
    const Buffer start = upload(random_values<T>(random(), elements));
    const Buffer aux = memory(start.bytes());
    const Buffer mapped = memory(start.bytes());
    const auto d = std::array{memory(start.bytes()), memory(start.bytes()), memory(start.bytes())};
    Stream stream(device());
    GemmSpec spec{.m = m, .n = n, .k = k, .dtype = dtype, .out_dtype = dtype, .bias = with_bias, .beta = beta};
    const auto run = [&](Auxiliary auxiliary, const Buffer& into) {
      spec.activation = auxiliary == Auxiliary::none ? Activation::none : Activation::gelu_tanh;
      spec.auxiliary = auxiliary;
      const auto gemm = device().gemm(spec);
      device().copy(stream, {.dst = into.data(), .src = start.data(), .bytes = start.bytes()});
      for (const std::int64_t begin : {0, 100}) {  // in two pieces
        const auto at = [&](const Buffer& buffer, std::int64_t columns) {
          return buffer.data_as<std::byte>() + static_cast<std::size_t>(begin * columns) * size_of(dtype);
        };
        gemm->run(stream, {.a = at(a, k),
                           .b = b.data(),
                           .d = at(into, n),
                           .bias = bias.data(),
                           .aux = auxiliary == Auxiliary::none ? nullptr : at(aux, n),
                           .m = begin == 0 ? 100 : m - 100});
      }
      stream.synchronize();
    };
    const auto numbers = [&](const Buffer& buffer) {
      std::vector<double> values;
      for (const T value : download<T>(buffer)) values.push_back(static_cast<double>(static_cast<float>(value)));
      return values;
    };
    // Expects `got` to be `kind` applied to `aux` and `y`, up to rounding and to the error of the hardware's tanh
    // (2^-11), which the derivative multiplies by a cubic.
    const auto expect_near = [&](MapKind kind, const Buffer& y, const Buffer& got) {
      device().map(stream, {.kind = kind,
                            .out = mapped.data(),
                            .x = aux.data(),
                            .y = kind == MapKind::activate ? nullptr : y.data(),
                            .count = m * n,
                            .dtype = dtype,
                            .out_dtype = dtype,
                            .activation = Activation::gelu_tanh});
      stream.synchronize();
      const std::vector<double> wanted = numbers(mapped);
      const std::vector<double> values = numbers(got);
      const std::vector<double> xs = numbers(aux);
      const std::vector<double> ys = numbers(y);
      for (std::size_t i = 0; i < elements; ++i) {
        const double x = std::abs(xs[i]);
        const double off = 3 * unit + 0x1p-11 * (1 + x) * (1 + 0.14 * x * x);
        ASSERT_NEAR(values[i], wanted[i], 2 * unit * std::abs(wanted[i]) + off * std::abs(ys[i]))
            << text(spec) << ", element " << i << ", of " << xs[i] << " and " << ys[i];
      }
    };
    run(Auxiliary::none, d[0]);
    run(Auxiliary::output, d[1]);
    const std::vector<double> sums = numbers(d[0]);
    const std::vector<double> kept = numbers(aux);
    for (std::size_t i = 0; i < elements; ++i) {
      ASSERT_NEAR(kept[i], sums[i], 2 * unit * (std::abs(sums[i]) + 1)) << text(spec);
    }
    expect_near(MapKind::activate, aux, d[1]);
    run(Auxiliary::gradient, d[2]);
    expect_near(MapKind::activate_grad, d[0], d[2]);
  };
  for (const bool with_bias : {false, true}) {
    for (const float beta : {0.0F, 0.5F}) {
      check_kept(f16, 0x1p-11, with_bias, beta, Half{});
      check_kept(bf16, 0x1p-8, with_bias, beta, BFloat16{});
    }
  }
}

TEST_P(GemmTest, RunsInTheStreamsOrderAndOutlivesItsObject) {
  const std::int64_t n = 300;
  const auto elements = static_cast<std::size_t>(n * n);
  std::vector<float> identity(elements);
  for (std::size_t i = 0; i < elements; i += static_cast<std::size_t>(n) + 1) identity[i] = 1;
  const std::vector<float> x = random_values<float>(random(), elements);
  const Buffer a = upload(x);
  const Buffer b = upload(identity);
  const Buffer c = memory(elements * 4);
  const Buffer d = memory(elements * 4);
  Stream stream(device());
  {
    const auto gemm = device().gemm({.m = n, .n = n, .k = n});
    gemm->run(stream, {.a = a.data(), .b = b.data(), .d = c.data()});
    device().copy(stream, {.dst = d.data(), .src = c.data(), .bytes = elements * 4});
    device().fill(stream, c.data(), std::byte{0}, elements * 4);
    if (!on_host()) stream.synchronize();
  }
  stream.synchronize();
  EXPECT_EQ(download<float>(d), x);
}

TEST_P(GemmTest, RefusesRunsWithoutTheirOperands) {
  const auto gemm = device().gemm(
      {.m = 4, .n = 4, .k = 4, .bias = true, .activation = Activation::gelu_tanh, .auxiliary = Auxiliary::output});
  const Stream stream(device());
  Buffer memory(device_, 1024);
  const GemmOperands whole{
      .a = memory.data(), .b = memory.data(), .d = memory.data(), .bias = memory.data(), .aux = memory.data()};
  const auto expect_told = [&](auto GemmOperands::* operand, const char* what) {
    GemmOperands run = whole;
    run.*operand = nullptr;
    expect_error<InvalidArgument>([&] { gemm->run(stream, run); }, {"without", what});
  };
  expect_told(&GemmOperands::a, "A;");
  expect_told(&GemmOperands::b, "B;");
  expect_told(&GemmOperands::d, "D;");
  expect_told(&GemmOperands::bias, "a bias;");
  expect_told(&GemmOperands::aux, "its auxiliary;");
  gemm->run(stream, {.m = 0});
  stream.synchronize();
}

TEST_P(GemmTest, RefusesWhatItCannotDo) {
  EXPECT_THROW(static_cast<void>(device().gemm({.m = -1, .n = 1, .k = 1})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(device().gemm({.m = 4, .n = 4, .k = 4, .lda = 3})), InvalidArgument);
  constexpr std::int64_t much = std::int64_t{1} << 62;
  for (const GemmSpec& spec :
       {GemmSpec{.m = 4, .n = 4, .k = 4, .lda = much}, GemmSpec{.m = 4, .n = 4, .k = 4, .ldb = much},
        GemmSpec{.m = 4, .n = 4, .k = 4, .ldd = much}, GemmSpec{.m = much, .n = 1, .k = 0},
        GemmSpec{.m = std::int64_t{1} << 32, .n = std::int64_t{1} << 32, .k = 0}}) {
    expect_error<InvalidArgument>([&] { static_cast<void>(device().gemm(spec)); }, {"elements in all"});
  }
  const Stream stream(device());
  const auto squares = device().gemm({.m = 4, .n = 4, .k = 4});
  const Buffer one = upload(std::vector<float>(16, 1.0F));
  for (const std::int64_t lda : {std::int64_t{3}, std::int64_t{1}, -(std::int64_t{1} << 40)}) {
    expect_error<InvalidArgument>(
        [&] { squares->run(stream, {.a = one.data(), .b = one.data(), .d = one.data(), .lda = lda}); },
        {"lda is " + std::to_string(lda), "4 elements"});
  }
  expect_error<InvalidArgument>(
      [&] { squares->run(stream, {.a = one.data(), .b = one.data(), .d = one.data(), .lda = much}); },
      {"elements in all"});
  EXPECT_THROW(static_cast<void>(device().gemm({.m = 4, .n = 4, .k = 4, .dtype = bf16, .out_dtype = f16})),
               InvalidArgument);
  GemmSpec kept{.m = 4, .n = 4, .k = 4, .auxiliary = Auxiliary::output};
  expect_error<InvalidArgument>([&] { static_cast<void>(device().gemm(kept)); }, {"auxiliary output", "gelu_erf"});
  kept.activation = Activation::gelu_tanh;
  kept.ldd = 5;
  expect_error<InvalidArgument>([&] { static_cast<void>(device().gemm(kept)); }, {"auxiliary output", "5", "dense"});
  EXPECT_THROW(static_cast<void>(device().gemm({.m = 4, .n = 4, .k = 4, .dtype = i32, .out_dtype = i32})), Unsupported);
  expect_error<InvalidArgument>(
      [&] { static_cast<void>(device().gemm({.m = 4, .n = 4, .k = 4, .activation = static_cast<Activation>(77)})); },
      {"activation number 77"});
  const auto none = device().gemm({.m = 0, .n = 4, .k = 4});
  expect_error<InvalidArgument>([&] { none->run(stream, {.m = 1}); }, {"m = 1, k = 4", "0 to 0 and 0 to 4"});
  expect_error<InvalidArgument>([&] { none->run(stream, {.k = 5}); }, {"m = 0, k = 5", "0 to 0 and 0 to 4"});
  expect_error<InvalidArgument>([&] { none->run(stream, {.k = -1}); }, {"m = 0, k = -1", "0 to 0 and 0 to 4"});
}

TANDEM_ON_EACH_DEVICE(GemmTest);

class BuiltinGemmTest : public GemmTest {
 protected:
  [[nodiscard]] DeviceOptions options() const override { return {.gemm = GemmChoice::builtin}; }
};

TEST_P(BuiltinGemmTest, IsRightForRandomShapes) { check_random(12, 130); }

TEST_P(BuiltinGemmTest, IsRightAcrossItsBlocks) {
  for (const DType dtype : {f32, f64}) {
    check({.m = 101, .n = 1100, .k = 520, .dtype = dtype, .out_dtype = dtype});
    check(
        {.m = 101, .n = 1100, .k = 520, .transpose_a = true, .transpose_b = true, .dtype = dtype, .out_dtype = dtype});
  }
}

INSTANTIATE_TEST_SUITE_P(Host, BuiltinGemmTest, ::testing::Values(DeviceType::host), type_name);

/// GEMMs that are split among three threads, however few cores there are.
class SharedGemmTest : public GemmTest {
 protected:
  [[nodiscard]] DeviceOptions options() const override { return {.gemm_threads = 3}; }

  /// `spec` must be large enough for three threads.
  void check_shared(const GemmSpec& spec) {
    expect_says(device().gemm(spec)->describe(), {"on 3 threads"});
    check(spec);
  }
  void check_all_shared() {
    for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{517, 263, 301}, {29, 1731, 763}}) {
      for (const DType dtype : {f32, bf16, f64}) {
        check_shared({.m = m, .n = n, .k = k, .dtype = dtype, .out_dtype = dtype});
        if (HasFatalFailure()) return;
      }
      check_shared({.m = m,
                    .n = n,
                    .k = k,
                    .transpose_a = true,
                    .transpose_b = true,
                    .bias = true,
                    .activation = Activation::gelu_tanh,
                    .beta = 0.5F,
                    .ldd = n + 3});
      check({.m = m, .n = n, .k = k, .dtype = bf16, .bias = true}, m - m / 5, k / 2);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(SharedGemmTest, IsRightInPartsOfAnyShape) { check_all_shared(); }

TEST_P(SharedGemmTest, SharesNothingThatIsOverSooner) {
  EXPECT_EQ(device().gemm({.m = 64, .n = 64, .k = 64})->describe().find("threads"), std::string::npos);
  expect_says(device().describe(), {"on 3 threads"});
}

class LargeCrewGemmTest : public GemmTest {
 protected:
  [[nodiscard]] DeviceOptions options() const override { return {.gemm_threads = 16}; }
};

// Whichever members of the crew are first do the two parts, so a member's number may exceed the number of parts.
TEST_P(LargeCrewGemmTest, IsRightInFewerPartsThanThreads) {
  for (const DType dtype : {f32, bf16}) {
    const GemmSpec spec{.m = 203, .n = 411, .k = 307, .dtype = dtype, .out_dtype = dtype};
    expect_says(device().gemm(spec)->describe(), {"on 2 threads"});
    for (int repeat = 0; repeat < 6; ++repeat) {
      check(spec);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Host, LargeCrewGemmTest, ::testing::Values(DeviceType::host), type_name);

class SharedBuiltinGemmTest : public SharedGemmTest {
 protected:
  [[nodiscard]] DeviceOptions options() const override { return {.gemm = GemmChoice::builtin, .gemm_threads = 3}; }
};

TEST_P(SharedBuiltinGemmTest, IsRightInPartsOfAnyShape) { check_all_shared(); }

INSTANTIATE_TEST_SUITE_P(Host, SharedGemmTest, ::testing::Values(DeviceType::host), type_name);
INSTANTIATE_TEST_SUITE_P(Host, SharedBuiltinGemmTest, ::testing::Values(DeviceType::host), type_name);

}  // namespace
}  // namespace tandem::testing
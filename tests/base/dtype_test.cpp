// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/dtype.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

#include "tandem/base/error.hpp"
#include "tandem/base/scalar.hpp"

namespace tandem {
namespace {

/// The nearest number of a format with these parameters, ties to even, computed without any bit manipulation.
double nearest(double value, int mantissa_bits, int smallest_exponent, double largest) {
  if (value == 0 || std::isnan(value) || std::isinf(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 1, smallest_exponent) - mantissa_bits);
  const double rounded = std::nearbyint(value / step) * step;
  return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

TEST(DType, NamesAreTheirOwnInverse) {
  for (const DType dtype : {f32, f16, bf16, f64, i32, i64, u8, f8e4m3, f8e5m2}) {
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    EXPECT_GT(size_of(dtype), 0U);
  }
  EXPECT_EQ(parse_dtype("bfloat16"), bf16);
  EXPECT_EQ(parse_dtype("half"), f16);
}

TEST(DType, AnUnknownNameListsTheKnownOnes) {
  try {
    static_cast<void>(parse_dtype("fp17"));
    FAIL() << "fp17 was taken";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("fp17"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos);
  }
}

TEST(Scalar, EachHalfSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(Half(value))));
    } else {
      EXPECT_EQ(Half(value).bits, half.bits) << "half 0x" << std::hex << bits;
    }
  }
}

TEST(Scalar, EachBFloat16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    BFloat16 narrow;
    narrow.bits = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(narrow);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(value))));
    } else {
      EXPECT_EQ(BFloat16(value).bits, narrow.bits) << "bf16 0x" << std::hex << bits;
    }
  }
}

template <typename T> class Float8Test : public ::testing::Test {};
using Float8Types = ::testing::Types<Float8E4M3, Float8E5M2>;
TYPED_TEST_SUITE(Float8Test, Float8Types);

TYPED_TEST(Float8Test, EachSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x100U; ++bits) {
    TypeParam narrow;
    narrow.bits = static_cast<std::uint8_t>(bits);
    const auto value = static_cast<float>(narrow);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(value))));
    } else if (!std::isinf(value)) {
      EXPECT_EQ(TypeParam(value).bits, narrow.bits) << "0x" << std::hex << bits;
    }
  }
}

TYPED_TEST(Float8Test, FloatsRoundToTheNearestTiesToEvenAndNoFurtherThanTheLargest) {
  constexpr bool e4m3 = std::is_same_v<TypeParam, Float8E4M3>;
  constexpr double largest = e4m3 ? 448 : 57344;
  for (std::uint64_t u = 0; u < 0x1'0000'0000ULL; u += 65'521) {
    for (const std::uint32_t low : {0U, 0x7ffffU, 0x80000U, 0x80001U, 0xfffffU, 0x100000U, 0x100001U, 0x180000U}) {
      const auto value = std::bit_cast<float>((static_cast<std::uint32_t>(u) & 0xffe00000U) | low);
      const auto got = static_cast<double>(static_cast<float>(TypeParam(value)));
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(got)) << value;
        continue;
      }
      const double wanted = e4m3 ? nearest(value, 3, -6, largest) : nearest(value, 2, -14, largest);
      ASSERT_EQ(got, std::isinf(wanted) ? std::copysign(largest, wanted) : wanted) << value;
    }
  }
}

TEST(Scalar, FloatsRoundToTheNearestTiesToEven) {
  // An odd stride visits all exponents and many mantissas; `low` is the bits below: ties of both formats, upwards and
  // downwards, and their neighbors.
  for (std::uint64_t u = 0; u < 0x1'0000'0000ULL; u += 65'521 * 3) {
    for (const std::uint32_t low : {0U, 0x0fffU, 0x1000U, 0x1001U, 0x3000U, 0x7fffU, 0x8000U, 0x8001U, 0xf000U}) {
      const auto value = std::bit_cast<float>((static_cast<std::uint32_t>(u) & 0xffff0000U) | low);
      if (std::isnan(value)) continue;
      ASSERT_EQ(static_cast<double>(static_cast<float>(Half(value))), nearest(value, 10, -14, 65504)) << value;
      ASSERT_EQ(static_cast<double>(static_cast<float>(BFloat16(value))), nearest(value, 7, -126, 0x1.fep127)) << value;
    }
  }
}

}  // namespace
}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/tensor_view.hpp"

#include <array>
#include <gtest/gtest.h>
#include <limits>

#include "tandem/base/error.hpp"

#include "support/errors.hpp"

namespace tandem {
namespace {

TEST(Dims, CountElements) {
  EXPECT_EQ(Dims{}.numel(), 1);
  EXPECT_EQ((Dims{3, 0, 5}).numel(), 0);
  EXPECT_EQ((Dims{3, 4}).numel(), 12);
  EXPECT_EQ(to_string(Dims{3, 4}), "[3, 4]");
  EXPECT_EQ((Dims{2, 3, 4}).dense_strides(), (Dims{12, 4, 1}));
}

TEST(Dims, RefuseWhatCannotBe) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(static_cast<void>((Dims{huge, 2}).numel()), InvalidArgument);
  EXPECT_EQ((Dims{huge, 2, 0}).numel(), 0);
  EXPECT_THROW(static_cast<void>((Dims{-1}).numel()), InvalidArgument);
  EXPECT_THROW((Dims{1, 2, 3, 4, 5, 6, 7, 8, 9}), InvalidArgument);
  EXPECT_THROW(static_cast<void>((Dims{1, 2, 3, 4, 5, 6, 7, 8}).prepended(1)), InvalidArgument);
}

TEST(TensorView, NarrowsByStride) {
  std::array<float, 12> data{};
  const TensorView view(data.data(), {3, 4}, f32);
  const TensorView middle = view.narrow(0, 1, 2);
  EXPECT_EQ(middle.data(), data.data() + 4);
  EXPECT_TRUE(middle.is_dense());
  const TensorView columns = view.narrow(1, 1, 2);
  EXPECT_EQ(columns.data(), data.data() + 1);
  EXPECT_FALSE(columns.is_dense());
  EXPECT_EQ(columns.bytes(), 24U);
  EXPECT_THROW(static_cast<void>(view.narrow(0, 2, 2)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(view.narrow(2, 0, 1)), InvalidArgument);
}

TEST(TensorView, OfNothingMayBeAsWideAsNumbersGo) {
  std::array<float, 1> data{};
  const std::int64_t wide = std::int64_t{1} << 40;
  const TensorView view(data.data(), {3, wide, wide, 0}, f32);
  EXPECT_TRUE(view.is_dense());
  EXPECT_EQ(view.narrow(0, 1, 2).data(), data.data());
}

TEST(TensorView, HasNoMoreBytesThanNumbersGo) {
  int place = 0;
  const auto bytes = [&](int power, DType dtype) {
    return TensorView(&place, {std::int64_t{1} << power}, dtype).bytes();
  };
  EXPECT_EQ(bytes(60, f32), std::size_t{1} << 62);
  EXPECT_EQ(bytes(62, u8), std::size_t{1} << 62);
  testing::expect_error<InvalidArgument>([&] { static_cast<void>(bytes(62, f32)); },
                                         {"[4611686018427387904]", "2^63 or more bytes of f32"});
  EXPECT_THROW(static_cast<void>(bytes(60, f64)), InvalidArgument);
}

TEST(TensorView, HasNoMoreDimensionsThanItHas) {
  std::array<float, 12> data{};
  const TensorView view(data.data(), {3, 4}, f32);
  EXPECT_EQ(view.size(0), 3);
  EXPECT_EQ(view.stride(0), 4);
  for (const std::size_t dim : {std::size_t{2}, std::size_t{8}, std::size_t{1} << 40}) {
    EXPECT_THROW(static_cast<void>(view.size(dim)), InvalidArgument);
    EXPECT_THROW(static_cast<void>(view.stride(dim)), InvalidArgument);
  }
}

TEST(TensorView, ReshapesWhatIsDense) {
  std::array<float, 12> data{};
  const TensorView view(data.data(), {3, 4}, f32);
  EXPECT_EQ(view.reshaped({2, 6}).sizes(), (Dims{2, 6}));
  EXPECT_THROW(static_cast<void>(view.reshaped({5})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(view.narrow(1, 0, 2).reshaped({6})), InvalidArgument);
  EXPECT_THROW(TensorView(nullptr, {1}, f32), InvalidArgument);
  EXPECT_NO_THROW(TensorView(nullptr, {0, 7}, f32));
}

}  // namespace
}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "collective/copy_batch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "tandem/base/tensor_view.hpp"

namespace tandem::testing {
namespace {

constexpr std::byte poison{0xa5};

class CopyBatchTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::byte* to(std::size_t at) { return to_.data() + at; }
  [[nodiscard]] const std::byte* from(std::size_t at) const { return from_.data() + at; }

  std::array<std::byte, 256> from_{};
  std::array<std::byte, 256> to_{};
};

TEST_F(CopyBatchTest, CopiesThatContinueTheLastOneAreOne) {
  CopyBatch batch;
  EXPECT_TRUE(batch.empty());
  batch.add(to(0), from(8), 4, Path::link, 64);
  batch.add(to(4), from(12), 12, Path::link, 64);
  ASSERT_EQ(batch.copies().size(), 1U);
  const Copy& copy = batch.copies().front();
  EXPECT_EQ(copy.dst, to(0));
  EXPECT_EQ(copy.src, from(8));
  EXPECT_EQ(copy.bytes, 16U);
  EXPECT_EQ(copy.rows, 1U);
  EXPECT_EQ(copy.part_of, 64U);

  batch.add(to(16), from(24), 4, Path::local, 64);  // by another path
  batch.add(to(20), from(28), 4, Path::local, 32);  // a part of something else
  batch.add(to(24), from(33), 4, Path::local, 32);  // a byte was left out there
  batch.add(to(29), from(37), 4, Path::local, 32);  // and one here
  EXPECT_EQ(batch.copies().size(), 5U);
  batch.clear();
  EXPECT_TRUE(batch.empty());
}

TEST_F(CopyBatchTest, NothingAndWhatIsInItsPlaceIsNoCopy) {
  CopyBatch batch;
  batch.add(to(0), from(0), 0, Path::link);
  batch.add(to(8), to(8), 16, Path::local);
  const Rows rows(TensorView(to_.data(), {4, 8}, {16, 1}, u8));
  batch.add(rows, rows, 32, Path::local);
  EXPECT_TRUE(batch.empty());
}

TEST_F(CopyBatchTest, RowsThatStepAlikeAreOneCopyOfRows) {
  const Rows strided(TensorView(to_.data(), {5, 8}, {16, 1}, u8));
  CopyBatch batch;
  batch.add(strided, Rows(from(0)), 40, Path::link);
  ASSERT_EQ(batch.copies().size(), 1U);
  const Copy& copy = batch.copies().front();
  EXPECT_EQ(copy.bytes, 8U);
  EXPECT_EQ(copy.rows, 5U);
  EXPECT_EQ(copy.dst_pitch, 16U);
  EXPECT_EQ(copy.src_pitch, 8U);
  batch.clear();
  batch.add(strided + 3, Rows(from(0)), 30, Path::link);  // 5 bytes of the first row, three rows, one byte of the last
  EXPECT_EQ(batch.copies().size(), 3U);
}

TEST_F(CopyBatchTest, EachByteGoesToItsPlace) {
  std::mt19937 random(7);
  const auto up_to = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random); };
  for (int trial = 0; trial < 2000; ++trial) {
    for (std::byte& byte : from_) byte = static_cast<std::byte>(up_to(127));  // never poison
    to_.fill(poison);
    std::array<std::byte, 256> expected = to_;
    // A tensor of rows, dense or apart from each other, in `memory`.
    const auto tensor = [&](std::byte* memory) {
      const auto row = static_cast<std::int64_t>(1 + up_to(11));
      const auto pitch = row + static_cast<std::int64_t>(up_to(2));
      return Rows(TensorView(memory, {64 / row, row}, {pitch, 1}, u8));
    };
    const Rows source = up_to(2) == 0 ? Rows(from_.data()) : tensor(from_.data());
    const Rows destination = up_to(2) == 0 ? Rows(to_.data()) : tensor(to_.data());
    CopyBatch batch;
    std::size_t at = up_to(3);  // stretches one behind the other, some bytes left out between them
    for (int i = 0; i < 3; ++i) {
      const std::size_t bytes = std::min(up_to(30), 52 - at);
      batch.add(destination + at, source + at, bytes, Path::local);
      for (std::size_t b = at; b < at + bytes; ++b) {
        expected[static_cast<std::size_t>((destination + b).address() - to_.data())] = *(source + b).address();
      }
      at += bytes + up_to(1);
    }
    for (const Copy& copy : batch.copies()) {
      for (std::size_t row = 0; row < copy.rows; ++row) {
        std::memcpy(static_cast<std::byte*>(copy.dst) + row * copy.dst_pitch,
                    static_cast<const std::byte*>(copy.src) + row * copy.src_pitch, copy.bytes);
      }
    }
    ASSERT_EQ(to_, expected) << "trial " << trial << ", " << batch.copies().size() << " copies";
  }
}

}  // namespace
}  // namespace tandem::testing

// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/copy.hpp"

#include <gtest/gtest.h>
#include <vector>

#include "device/on_device.hpp"

namespace tandem::testing {
namespace {

constexpr auto poison = static_cast<std::byte>(0xa5);

class CopyTest : public OnDevice {};

TEST_P(CopyTest, CopiesAnyNumberOfBytes) {
  Stream stream(device());
  for (const std::size_t bytes : {0U, 1U, 2U, 63U, 64U, 65U, 4096U, 1'000'003U, 33'554'433U}) {
    const std::vector<std::byte> data = random_bytes(bytes + 8);
    const Buffer source = upload(data);
    const Buffer target = upload(std::vector<std::byte>(bytes + 8, poison));
    device().copy(stream,
                  {.dst = target.data_as<std::byte>() + 3, .src = source.data_as<std::byte>() + 5, .bytes = bytes});
    stream.synchronize();
    std::vector<std::byte> expected(bytes + 8, poison);
    for (std::size_t i = 0; i < bytes; ++i) expected[i + 3] = data[i + 5];
    ASSERT_EQ(download<std::byte>(target), expected) << bytes << " bytes";
  }
}

TEST_P(CopyTest, CopiesRows) {
  Stream stream(device());
  for (int round = 0; round < 50; ++round) {
    // Now and then rows of at least a page, more than 4 MiB in all, which the host stores past its caches.
    const bool much = round % 10 == 9;
    const auto rows = static_cast<std::size_t>(much ? random_between(1030, 1060) : random_between(0, 40));
    const auto width = static_cast<std::size_t>(much ? random_between(4096, 5000) : random_between(1, 300));
    const std::size_t dst_pitch = width + static_cast<std::size_t>(random_between(0, 40));
    const std::size_t src_pitch = width + static_cast<std::size_t>(random_between(0, 40));
    const std::vector<std::byte> data = random_bytes(rows * src_pitch + 1);
    const Buffer source = upload(data);
    std::vector<std::byte> expected(rows * dst_pitch + 1, poison);
    const Buffer target = upload(expected);
    device().copy(stream, {.dst = target.data(),
                           .src = source.data(),
                           .bytes = width,
                           .rows = rows,
                           .dst_pitch = dst_pitch,
                           .src_pitch = src_pitch});
    stream.synchronize();
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < width; ++i) expected[r * dst_pitch + i] = data[r * src_pitch + i];
    }
    ASSERT_EQ(download<std::byte>(target), expected) << rows << " rows of " << width;
  }
}

TEST_P(CopyTest, CopiesBatches) {
  Stream stream(device());
  for (const std::size_t count : {0U, 1U, 2U, 7U, 64U, 3000U}) {
    std::vector<std::size_t> sizes(count);
    std::size_t total = 0;
    for (std::size_t& size : sizes) total += size = static_cast<std::size_t>(random_between(0, 500));
    const std::vector<std::byte> data = random_bytes(total + 1);
    const Buffer source = upload(data);
    const Buffer target = upload(std::vector<std::byte>(total + 1, poison));
    std::vector<Copy> copies;
    std::vector<std::byte> expected(total + 1, poison);
    // The target holds the pieces in reverse order.
    std::size_t at = 0;
    for (const std::size_t size : sizes) {
      const std::size_t to = total - at - size;
      copies.push_back(
          {.dst = target.data_as<std::byte>() + to, .src = source.data_as<std::byte>() + at, .bytes = size});
      for (std::size_t i = 0; i < size; ++i) expected[to + i] = data[at + i];
      at += size;
    }
    device().copy_batch(stream, copies);
    copies.clear();  // the device must have copied the list
    stream.synchronize();
    ASSERT_EQ(download<std::byte>(target), expected) << count << " copies";
  }
}

TEST_P(CopyTest, Fills) {
  Stream stream(device());
  for (const std::size_t bytes : {0U, 1U, 17U, 4096U, 1'000'001U}) {
    const Buffer target = upload(std::vector<std::byte>(bytes + 2, poison));
    device().fill(stream, target.data_as<std::byte>() + 1, std::byte{0x3c}, bytes);
    stream.synchronize();
    std::vector<std::byte> expected(bytes + 2, std::byte{0x3c});
    expected.front() = poison;
    expected.back() = poison;
    ASSERT_EQ(download<std::byte>(target), expected) << bytes << " bytes";
  }
}

TANDEM_ON_EACH_DEVICE(CopyTest);

}  // namespace
}  // namespace tandem::testing

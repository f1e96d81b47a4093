// SPDX-License-Identifier: Apache-2.0
// The conformance suite that every memory backend must pass.
#include "tandem/memory/backend.hpp"

#include <cstdlib>
#include <gtest/gtest.h>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/memory/symmetric_memory.hpp"

#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using testing::run_ranks;

class Backend : public testing::OnEachDevice {
 protected:
  static std::string own_name() { return std::string(name(GetParam())); }
  /// Runs `body` in a separate process, so that this one does not open the device.
  static void with_backend(const std::function<void(MemoryBackend&, Device&)>& body) {
    on(1, [&](World& world) {
      const auto backend = open_memory_backend(own_name(), world.shared_device());
      body(*backend, world.device());
    });
  }
};

std::vector<std::byte> read(Device& device, const std::byte* memory, std::size_t bytes) {
  std::vector<std::byte> copy(bytes);
  device.download(copy.data(), memory, bytes);
  return copy;
}

TEST_P(Backend, GivesZeroedMemoryOfAtLeastTheSizeAskedFor) {
  with_backend([](MemoryBackend& backend, Device& device) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{3} << 20}) {
      const auto segment = backend.allocate(bytes);
      EXPECT_GE(segment->bytes(), std::max<std::size_t>(bytes, 1));
      EXPECT_EQ(segment->bytes() % backend.granularity(), 0U);
      for (const std::byte value : read(device, segment->data(), segment->bytes())) ASSERT_EQ(value, std::byte{0});
    }
  });
}

TEST_P(Backend, AMappingShowsTheSegment) {
  with_backend([](MemoryBackend& backend, Device& device) {
    const auto segment = backend.allocate(10'000);
    const auto mapping = backend.map(segment->share());
    ASSERT_GE(mapping->bytes(), 10'000U);
    const std::vector<std::byte> written(10'000, std::byte{0x5a});
    device.upload(mapping->data(), written.data(), written.size());
    EXPECT_EQ(read(device, segment->data(), written.size()), written);
  });
}

TEST_P(Backend, AMappingOutlivesTheSegment) {
  with_backend([](MemoryBackend& backend, Device& device) {
    auto segment = backend.allocate(100);
    const std::vector<std::byte> written(100, std::byte{7});
    device.upload(segment->data(), written.data(), written.size());
    const auto mapping = backend.map(segment->share());
    segment.reset();
    EXPECT_EQ(read(device, mapping->data(), 100), written);
  });
}

TEST_P(Backend, SideBySideIsTheSameMemoryOnceMore) {
  with_backend([](MemoryBackend& backend, Device& device) {
    std::vector<std::shared_ptr<Segment>> segments;
    std::vector<std::shared_ptr<Mapping>> parts;
    for (int i = 0; i < 3; ++i) {
      segments.push_back(backend.allocate(5'000));
      parts.push_back(backend.map(segments.back()->share()));
    }
    const auto range = backend.map_side_by_side(parts);
    const std::size_t stride = parts[0]->bytes();
    ASSERT_EQ(range->bytes(), 3 * stride);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::vector<std::byte> written(5'000, static_cast<std::byte>(i + 1));
      device.upload(range->data() + i * stride, written.data(), written.size());
      EXPECT_EQ(read(device, segments[i]->data(), 5'000), written);
    }
  });
}

TEST_P(Backend, AdoptsWhatItAllocatedAndNothingElse) {
  with_backend([](MemoryBackend& backend, Device& device) {
    const auto segment = backend.allocate(1'000);
    EXPECT_EQ(backend.adopt(segment->data() + 100, 900)->data(), segment->data());
    void* own = device.allocate(1'000);
    try {
      static_cast<void>(backend.adopt(own, 1'000));
      ADD_FAILURE() << "private memory was adopted";
    } catch (const Unsupported& error) {
      EXPECT_NE(std::string(error.what()).find("SymmetricTensor::empty"), std::string::npos) << error.what();
    }
    device.deallocate(own);
  });
}

TEST_P(Backend, MoreMemoryThanThereIsIsAnErrorWithTheSize) {
  with_backend([](MemoryBackend& backend, Device&) {
    const std::size_t bytes = std::size_t{1} << 46;
    try {
      static_cast<void>(backend.allocate(bytes));
      ADD_FAILURE() << "64 TiB were given";
    } catch (const OutOfMemory& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(static_cast<void>(backend.allocate(1)));
  });
}

TANDEM_ON_EACH_DEVICE(Backend);

TEST(BackendNames, AnUnknownOneListsTheKnown) {
  run_ranks(1, [](World& world) {
    const std::string text = testing::error_of<InvalidArgument>(
        [&] { static_cast<void>(SymmetricMemory::allocate(world.team(), 8, {.backend = "rdma"})); });
    for (const std::string& name : memory_backend_names()) testing::expect_says(text, {name});
  });
}

TEST(BackendNames, AutoIsTheDevicesOwn) {
  const auto device = open_device({DeviceType::host, 0});
  EXPECT_EQ(why_no_memory_backend("auto", *device), "");
  EXPECT_EQ(open_memory_backend("auto", device)->name(), "host");
}

TEST(BackendNames, OneThatCannotBeUsedSaysWhyAndNoOtherIsTaken) {
  run_ranks(1, [](World& world) {
    for (const char* name : {"cuda", "nccl", "nvshmem"}) {
      const std::string why = why_no_memory_backend(name, world.device());
      ASSERT_FALSE(why.empty()) << name;
      testing::expect_error<Unsupported>(
          [&] { static_cast<void>(SymmetricMemory::allocate(world.team(), 8, {.backend = name})); }, {why});
    }
    EXPECT_EQ(SymmetricMemory::allocate(world.team(), 8).backend(), "host");
  });
}

}  // namespace
}  // namespace tandem

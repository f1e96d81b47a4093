// SPDX-License-Identifier: Apache-2.0
// Collectives of more than 2^31 and 2^32 elements and bytes, by each algorithm that is meant for such sizes.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/buffer.hpp"

#include "collective/support.hpp"
#include "support/devices.hpp"
#include "support/gpu_memory.hpp"

namespace tandem::testing {
namespace {

constexpr std::int64_t large_bytes = std::int64_t{9} << 29;  // 4.5 GiB; half of it is still more than 2^31 bytes

/// A rank's input: whole numbers from 0 to 63, which all dtypes used here represent exactly, as they do sums of two.
std::function<double(std::int64_t)> numbers_of(int rank) {
  return [rank_key = key(seed(), {static_cast<std::uint64_t>(rank)})](std::int64_t i) {
    return static_cast<double>(random_bits(rank_key, static_cast<std::uint64_t>(i)) & 63U);
  };
}

/// A tensor's elements, repeated with an odd period, so that the elements at distances of 2^31 and 2^32 differ.
class Pattern {
 public:
  Pattern(DType dtype, const std::function<double(std::int64_t)>& element) : element_bytes_(size_of(dtype)) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < period; ++i) values.push_back(element(i));
    if (dtype == u8) {
      for (const double value : values) bytes_.push_back(static_cast<std::byte>(value));
    } else {
      bytes_ = stored(values, dtype);
    }
  }

  /// The pattern of the sum of both ranks' inputs.
  static Pattern of_sum(DType dtype) {
    return {dtype, [first = numbers_of(0), second = numbers_of(1)](std::int64_t i) { return first(i) + second(i); }};
  }

  /// Fills `view` with the pattern, from its beginning.
  void fill(Device& device, const Stream& stream, const TensorView& view) const {
    auto* const memory = view.data_as<std::byte>();
    std::size_t done = std::min(bytes_.size(), view.bytes());
    device.upload(memory, bytes_.data(), done);
    while (done < view.bytes()) {
      const std::size_t more = std::min(done, view.bytes() - done);
      device.copy(stream, {.dst = memory + done, .src = memory, .bytes = more});
      done += more;
    }
    stream.synchronize();
  }

  /// Fails the test unless `view` holds the pattern from element `first` on.
  void expect_in(Device& device, const TensorView& view, std::int64_t first, const std::string& what) const {
    std::vector<std::byte> got(bytes_.size());
    for (std::int64_t at = 0; at < view.numel();) {
      const std::int64_t place = (first + at) % period;
      const std::int64_t count = std::min(period - place, view.numel() - at);
      const std::byte* const expected = bytes_.data() + static_cast<std::size_t>(place) * element_bytes_;
      const std::size_t bytes = static_cast<std::size_t>(count) * element_bytes_;
      device.download(got.data(), view.data_as<std::byte>() + static_cast<std::size_t>(at) * element_bytes_, bytes);
      if (std::memcmp(got.data(), expected, bytes) != 0) {
        const auto wrong = std::mismatch(expected, expected + bytes, got.begin()).first - expected;
        ADD_FAILURE() << what << ": element " << at + wrong / static_cast<std::int64_t>(element_bytes_) << " of "
                      << view.numel() << " is the first wrong one";
        return;
      }
      at += count;
    }
  }

 private:
  static constexpr std::int64_t period = 8'388'593;

  std::size_t element_bytes_;
  Bytes bytes_;
};

/// One rank's two large tensors, one of them symmetric, and the inputs of all ranks.
struct Large {
  static constexpr int ranks = 2;

  Large(World& world, DType dtype)
      : team(world.team()),
        device(world.device()),
        stream(device),
        count(large_bytes / static_cast<std::int64_t>(size_of(dtype))),
        half(count / ranks),
        whole(symmetric(team, {count}, dtype)),
        memory(world.shared_device(), static_cast<std::size_t>(large_bytes)),
        plain(memory.view({count}, dtype)) {
    for (int rank = 0; rank < ranks; ++rank) given.emplace_back(dtype, numbers_of(rank));
  }

  [[nodiscard]] const Pattern& mine() const { return given[static_cast<std::size_t>(team.rank())]; }
  [[nodiscard]] static TensorView part(const TensorView& view, int rank) {
    return view.narrow(0, rank * (view.numel() / ranks), view.numel() / ranks);
  }
  /// Calls `queue` after filling `input` with `content` and poisoning `out`, on all ranks.
  void run(const Pattern& content, const TensorView& input, const TensorView& out, const std::function<void()>& queue) {
    content.fill(device, stream, input);
    device.fill(stream, out.data(), poison_of(out.dtype()), out.bytes());
    run(queue);
  }
  /// Calls `queue` once all ranks have filled their tensors.
  void run(const std::function<void()>& queue) {
    team.synchronize(stream);
    team.barrier();
    queue();
    team.synchronize(stream);
  }

  Team team;
  Device& device;
  Stream stream;
  std::int64_t count;
  std::int64_t half;
  SymmetricTensor whole;
  Buffer memory;
  TensorView plain;
  std::vector<Pattern> given;
};

class LargeTest : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    constexpr std::size_t needed = std::size_t{24} << 30;  // two ranks, which may share a GPU
    if (const std::size_t free = GpuMemoryWatch::free_bytes(); free < needed) {
      GTEST_SKIP() << "two ranks need " << needed << " bytes of GPU memory; NVML says that " << free << " are free";
    }
  }
  static void on_two(const std::function<void(World&)>& body) {
    on(Large::ranks, body, {.limit = std::chrono::seconds(240)});
  }
};

TEST_P(LargeTest, AllGather) {
  on_two([](World& world) {
    Large large(world, u8);
    const auto check = [&](const char* algorithm, const TensorView& shard, const auto& gathered,
                           const TensorView& out) {
      AllGather plan(large.team, {.count = large.half, .dtype = u8}, {.algorithm = algorithm});
      large.run(large.mine(), shard, out, [&] { plan(shard, gathered, large.stream); });
      for (int rank = 0; rank < Large::ranks; ++rank) {
        const Pattern& given = large.given[static_cast<std::size_t>(rank)];
        given.expect_in(large.device, Large::part(out, rank), 0, plan.describe() + ", shard " + std::to_string(rank));
      }
    };
    const TensorView whole = large.whole.local();
    for (const char* algorithm : {"push", "direct_kernel"}) {
      check(algorithm, Large::part(large.plain, 0), large.whole, whole);
    }
    check("staged", Large::part(whole, 0), large.plain, large.plain);
  });
}

TEST_P(LargeTest, ReduceScatter) {
  on_two([](World& world) {
    Large large(world, bf16);
    const Pattern sum = Pattern::of_sum(bf16);
    const TensorView whole = large.whole.local();
    const TensorView shard = Large::part(large.plain, 1);
    const auto check = [&](const char* algorithm, const auto& input) {
      ReduceScatter plan(large.team, {.count = large.half, .dtype = bf16}, {.algorithm = algorithm});
      large.run(large.mine(), whole, shard, [&] { plan(input, shard, large.stream); });
      sum.expect_in(large.device, shard, large.team.rank() * large.half, plan.describe());
    };
    for (const char* algorithm : {"direct", "direct_kernel"}) check(algorithm, large.whole);
    for (const char* algorithm : {"staged", "push"}) check(algorithm, whole);
  });
}

TEST_P(LargeTest, AllReduce) {
  on_two([](World& world) {
    Large large(world, bf16);
    const Pattern sum = Pattern::of_sum(bf16);
    const TensorView whole = large.whole.local();
    for (const char* algorithm : {"two_shot", "direct_kernel"}) {
      AllReduce plan(large.team, {.count = large.count, .dtype = bf16}, {.algorithm = algorithm});
      large.mine().fill(large.device, large.stream, whole);
      large.run([&] { plan(large.whole, large.stream); });
      sum.expect_in(large.device, whole, 0, plan.describe());
    }
    for (const char* algorithm : {"two_shot", "one_shot"}) {
      AllReduce plan(large.team, {.count = large.count, .dtype = bf16}, {.algorithm = algorithm});
      large.run(large.mine(), whole, large.plain, [&] { plan(whole, large.plain, large.stream); });
      sum.expect_in(large.device, large.plain, 0, "plain views, " + plan.describe());
    }
  });
}

TEST_P(LargeTest, AllToAll) {
  on_two([](World& world) {
    Large large(world, u8);
    const TensorView whole = large.whole.local();
    const auto check = [&](const char* algorithm, const auto& input, const TensorView& in, const auto& output,
                           const TensorView& out) {
      AllToAll plan(large.team, {.count = large.half, .dtype = u8}, {.algorithm = algorithm});
      large.run(large.mine(), in, out, [&] { plan(input, output, large.stream); });
      for (int rank = 0; rank < Large::ranks; ++rank) {
        const Pattern& given = large.given[static_cast<std::size_t>(rank)];
        given.expect_in(large.device, Large::part(out, rank), large.team.rank() * large.half,
                        plan.describe() + ", part of rank " + std::to_string(rank));
      }
    };
    for (const char* algorithm : {"push", "direct_kernel"}) {
      check(algorithm, large.plain, large.plain, large.whole, whole);
    }
    for (const char* algorithm : {"pull", "direct_kernel"}) {
      check(algorithm, large.whole, whole, large.plain, large.plain);
    }
    check("staged", whole, whole, large.plain, large.plain);
  });
}

TEST_P(LargeTest, Broadcast) {
  on_two([](World& world) {
    Large large(world, u8);
    constexpr int root = 1;
    const TensorView whole = large.whole.local();
    const auto check = [&](const char* algorithm, const auto& tensor) {
      Broadcast plan(large.team, {.count = large.count, .dtype = u8}, {.algorithm = algorithm});
      if (large.team.rank() == root) {
        large.mine().fill(large.device, large.stream, whole);
      } else {
        large.device.fill(large.stream, whole.data(), poison_of(u8), whole.bytes());
      }
      large.run([&] { plan(tensor, root, large.stream); });
      large.given[root].expect_in(large.device, whole, 0, plan.describe());
    };
    for (const char* algorithm : {"push", "pull", "direct_kernel"}) check(algorithm, large.whole);
    check("staged", whole);
  });
}

INSTANTIATE_TEST_SUITE_P(On, LargeTest, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing

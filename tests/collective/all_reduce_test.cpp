// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/all_reduce.hpp"

#include <span>
#include <string>

#include "collective/support.hpp"
#include "memory/private_memory.hpp"

namespace tandem::testing {
namespace {

class AllReduceTest : public CollectiveTest {};

/// Checks every form of one all-reduce; `plain` runs those between plain views, `into_plain` symmetric to plain.
void check_all_forms(const Team& team, AllReduce& all_reduce, AllReduce& plain, std::int64_t count, DType dtype,
                     std::uint64_t id, AllReduce* into_plain = nullptr) {
  const Stream stream(team.device());
  const int n = team.size();
  const Dims sizes{count};
  std::vector<std::vector<double>> inputs;
  for (int rank = 0; rank < n; ++rank) inputs.push_back(summed_values(id, rank, count, dtype));
  const Bytes mine = stored(inputs[static_cast<std::size_t>(team.rank())], dtype);
  const Expected expected = expected_sum(inputs, dtype);
  const std::string what = describe_case(team, sizes, dtype);

  SymmetricTensor source = symmetric(team, sizes, dtype);
  SymmetricTensor target = symmetric(team, sizes, dtype);
  GuardedTensor input(team, sizes, dtype, 1);
  GuardedTensor out(team, sizes, dtype, 2);
  input.set(mine);
  set(source, mine);
  const auto check = [&](const Bytes& got, const std::string& form) {
    expect_sums(got, expected, form + ", " + what);
    expect_same_on_all_ranks(team, got, form + ", " + what);
    expect_bytes(input.get(), mine, "input of " + form + ", " + what);
    expect_bytes(get(source), mine, "symmetric input of " + form + ", " + what);
  };

  plain(input.view(), out.view(), stream);
  // Later work on the stream may overwrite both tensors: a peer that still reads them must not see that.
  GuardedTensor seen(team, sizes, dtype);
  team.device().copy(stream, {.dst = seen.view().data(), .src = out.view().data(), .bytes = mine.size()});
  team.device().fill(stream, out.view().data(), std::byte{0x7F}, mine.size());
  team.device().fill(stream, input.view().data(), std::byte{0x7F}, mine.size());
  team.synchronize(stream);
  input.set(mine);
  check(seen.get(), "plain");

  poison(target);
  all_reduce(input.view(), target, stream);
  team.synchronize(stream);
  check(get(target), "plain to symmetric");

  out.poison();
  (into_plain != nullptr ? *into_plain : all_reduce)(source, out.view(), stream);
  team.synchronize(stream);
  check(out.get(), "symmetric to plain");

  poison(target);
  all_reduce(source, target, stream);
  team.synchronize(stream);
  check(get(target), "symmetric to symmetric");

  set(target, mine);
  all_reduce(target, stream);
  team.synchronize(stream);
  check(get(target), "symmetric in place");

  out.set(mine);
  plain(out.view(), out.view(), stream);
  team.synchronize(stream);
  check(out.get(), "plain in place");
}

constexpr std::int64_t all_reduce_counts[]{0, 1, 2, 5, 63, 64, 1000, 4099, 16384};

TEST_P(AllReduceTest, EveryFormDtypeAndSize) {
  run([](World& world) {
    std::uint64_t id = 3000;
    std::vector<std::string> algorithms{"auto", "one_shot", "two_shot"};
    if (world.device().sends_letters()) algorithms.emplace_back("mail");
    if (world.device().exchanges_mail()) algorithms.insert(algorithms.end(), {"one_kernel", "one_kernel_two_shot"});
    for (const DType dtype : summed_dtypes(world.team())) {
      for (const std::string& algorithm : algorithms) {
        AllReduce all_reduce(world.team(), {.count = 16384, .dtype = dtype},
                             {.algorithm = algorithm, .piece_bytes = 5000});
        for (const std::int64_t count : all_reduce_counts) {
          check_all_forms(world.team(), all_reduce, all_reduce, count, dtype, ++id);
        }
      }
      AllReduce all_reduce(world.team(), {.count = 16384, .dtype = dtype});
      if (world.device().meets()) {
        AllReduce direct(world.team(), {.count = 16384, .dtype = dtype}, {.algorithm = "direct_kernel"});
        for (const std::int64_t count : all_reduce_counts) {
          check_all_forms(world.team(), direct, all_reduce, count, dtype, ++id, &all_reduce);
        }
      }
      if (!can_fetch(world.team())) continue;
      AllReduce fetch(world.team(), {.count = 16384, .dtype = dtype}, fetching(5000));
      for (const std::int64_t count : all_reduce_counts)
        check_all_forms(world.team(), all_reduce, fetch, count, dtype, ++id);
    }
  });
}

TEST_P(AllReduceTest, SaysWhichAlgorithmARunTakes) {
  run([](World& world) {
    const Team& team = world.team();
    const std::int64_t count = 4 << 20;
    const AllReduce free(team, {.count = count});
    const AllReduce asked(team, {.count = count}, {.algorithm = "one_shot"});
    const bool alone = team.size() == 1;
    EXPECT_EQ(asked.algorithm(count, Tensors::symmetric_input), alone ? "copy" : "one_shot");
    const char* const in_place = team.device().meets() ? "direct_kernel" : "two_shot";
    EXPECT_EQ(free.algorithm(count, Tensors::symmetric_output), alone ? "copy" : in_place);
    const char* const small = team.device().sends_letters() ? "mail" : "one_kernel";
    EXPECT_EQ(free.algorithm(8, Tensors::plain), alone ? "copy" : small);
    if (alone || !team.device().meets()) return;
    const std::int64_t mebibyte = (1 << 20) / static_cast<std::int64_t>(size_of(f32));
    EXPECT_EQ(free.algorithm(mebibyte, Tensors::symmetric_output), team.size() == 2 ? "one_kernel" : "direct_kernel");
    EXPECT_EQ(free.algorithm(mebibyte, Tensors::plain), team.size() == 2 ? "one_kernel" : "one_kernel_two_shot");
  });
}

TEST_P(AllReduceTest, ReadsTinyPlainViewsWhereTheyAre) {
  if (device() == DeviceType::cuda) GTEST_SKIP() << "the host alone reads private memory";
  run([](World& world) {
    const Team& team = world.team();
    if (!can_fetch(team)) GTEST_SKIP() << why_no_loans(team);
    for (const std::int64_t count : {1, 7, 128, 129, 1025}) {
      AllReduce all_reduce(team, {.count = count, .dtype = bf16});
      AllReduce fetch(team, {.count = count, .dtype = bf16}, fetching(256));
      for (const std::int64_t some : {std::int64_t{1}, count}) {
        check_all_forms(team, all_reduce, fetch, some, bf16, 3500 + static_cast<std::uint64_t>(count));
      }
    }
  });
}

TEST_P(AllReduceTest, AllAlgorithmsGiveTheSameBits) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    const std::int64_t count = 3001;
    const Bytes mine = stored(summed_values(4000, team.rank(), count, bf16), bf16);
    std::vector<Bytes> results;
    std::vector<CollectiveOptions> ways{{.algorithm = "one_shot"}, {.algorithm = "two_shot"}};
    if (can_fetch(team)) ways.push_back(fetching());
    if (team.device().sends_letters()) ways.push_back({.algorithm = "mail"});
    if (team.device().exchanges_mail()) {
      ways.push_back({.algorithm = "one_kernel"});
      ways.push_back({.algorithm = "one_kernel_two_shot"});
    }
    for (const CollectiveOptions& options : ways) {
      AllReduce all_reduce(team, {.count = count, .dtype = bf16}, options);
      GuardedTensor tensor(team, {count}, bf16);
      tensor.set(mine);
      all_reduce(tensor.view(), tensor.view(), stream);
      team.synchronize(stream);
      results.push_back(tensor.get());
    }
    for (std::size_t i = 1; i < ways.size(); ++i) {
      expect_bytes(results[i], results[0], ways[i].algorithm + " against one_shot");
    }
    if (!team.device().meets()) return;
    AllReduce direct(team, {.count = count, .dtype = bf16}, {.algorithm = "direct_kernel"});
    SymmetricTensor tensor = symmetric(team, {count}, bf16);
    set(tensor, mine);
    direct(tensor, stream);
    team.synchronize(stream);
    expect_bytes(get(tensor), results[0], "direct_kernel against one_shot");
  });
}

TEST_P(AllReduceTest, SubTeamsInOddOrders) {
  const int n = ranks();
  run([n](World& world) {
    for (const auto& ranks : odd_orders(n)) {
      const Team team = world.team(ranks);
      if (!team) continue;
      AllReduce all_reduce(team, {.count = 5000, .dtype = f16}, {.algorithm = "two_shot", .piece_bytes = 2048});
      check_all_forms(team, all_reduce, all_reduce, 4999, f16, 5000 + ranks.size());
    }
  });
}

TEST_P(AllReduceTest, OneMultiprocessorIsEnough) {
  run([](World& world) {
    const Team& team = world.team();
    constexpr std::int64_t count = 50'001;  // 200 KB: without the limit, kernels would use several blocks
    std::vector<std::string> algorithms{"auto", "two_shot"};
    if (world.device().exchanges_mail()) algorithms.insert(algorithms.end(), {"one_kernel", "one_kernel_two_shot"});
    std::uint64_t id = 7000;
    for (const std::string& algorithm : algorithms) {
      AllReduce all_reduce(team, {.count = count, .dtype = f32}, {.algorithm = algorithm, .sms = 1});
      EXPECT_NE(all_reduce.describe().find("on at most 1 SMs"), std::string::npos) << all_reduce.describe();
      check_all_forms(team, all_reduce, all_reduce, count, f32, ++id);
    }
    if (!world.device().meets()) return;
    AllReduce all_reduce(team, {.count = count, .dtype = f32});
    AllReduce direct(team, {.count = count, .dtype = f32}, {.algorithm = "direct_kernel", .sms = 1});
    check_all_forms(team, direct, all_reduce, count, f32, ++id, &all_reduce);
  });
}

// In place and out of place, for a count without useful divisors. Integers, so that every element is compared exactly.
TEST_P(AllReduceTest, LargeSumsOfSymmetricTensors) {
  if (device() == DeviceType::host) GTEST_SKIP() << "the host sums tensors of any size in the same way";
  if (ranks() > 3) GTEST_SKIP() << "tensors of so many ranks' large sums say no more than those of three";
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    constexpr std::int64_t chunk = 16 << 20;  // bytes; for such chunks a kernel uses as many blocks as it may
    const std::int64_t count = chunk / static_cast<std::int64_t>(size_of(i32)) * team.size() + 12'345;
    SymmetricTensor input = symmetric(team, {count}, i32);
    SymmetricTensor out = symmetric(team, {count}, i32);
    const auto element = [](int rank, std::int64_t i) {
      return static_cast<std::int32_t>(
          random_bits(8000, static_cast<std::uint64_t>(i) * 16 + static_cast<std::uint64_t>(rank)) >> 36);
    };
    std::vector<std::int32_t> mine(static_cast<std::size_t>(count));
    std::vector<std::int32_t> sums(mine.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      mine[at] = element(team.rank(), i);
      for (int rank = 0; rank < team.size(); ++rank) sums[at] += element(rank, i);
    }
    const auto bytes = std::as_bytes(std::span(sums));
    const Bytes wanted(bytes.begin(), bytes.end());
    const auto own = std::as_bytes(std::span(mine));
    for (const char* algorithm : {"auto", "two_shot"}) {
      AllReduce all_reduce(team, {.count = count, .dtype = i32}, {.algorithm = algorithm});
      for (const bool in_place : {false, true}) {
        set(input, Bytes(own.begin(), own.end()));
        poison(out);
        if (in_place) {
          all_reduce(input, stream);
        } else {
          all_reduce(input, out, stream);
        }
        team.synchronize(stream);
        expect_bytes(get(in_place ? input : out), wanted,
                     std::string(algorithm) + (in_place ? ", in place" : ", out of place"));
      }
    }
  });
}

TEST_P(AllReduceTest, WithoutStagingSymmetricTensorsStillWork) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    AllReduce all_reduce(team, {.count = 100, .dtype = f32}, {.staging = false});
    SymmetricTensor tensor = symmetric(team, {100}, f32);
    std::vector<std::vector<double>> inputs;
    for (int rank = 0; rank < team.size(); ++rank) inputs.push_back(summed_values(6000, rank, 100, f32));
    set(tensor, stored(inputs[static_cast<std::size_t>(team.rank())], f32));
    all_reduce(tensor, stream);
    team.synchronize(stream);
    expect_sums(get(tensor), expected_sum(inputs, f32), "without staging");
    GuardedTensor plain(team, {100}, f32);
    EXPECT_THROW(all_reduce(plain.view(), plain.view(), stream), InvalidArgument);
  });
}

TANDEM_COLLECTIVE_SUITE(AllReduceTest);

}  // namespace
}  // namespace tandem::testing

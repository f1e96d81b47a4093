// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/bulk_overlap.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/memory/symmetric_memory.hpp"

#include "linear/communication.hpp"
#include "linear/tensors.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::Communication;
using testing::expect_error;
using testing::GuardedTensor;
using testing::Matrix;

class BulkOverlapTest : public testing::OnEachDevice {};

constexpr std::int64_t product_m = 37;
constexpr std::int64_t product_n = 24;
constexpr std::int64_t product_k = 40;

std::uint64_t key_of(std::uint64_t which, int run) {
  return testing::key(testing::seed(), {which, static_cast<std::uint64_t>(run)});
}

/// A rank's input: whole numbers, so that their sums are exact.
std::vector<double> given_by(int rank, int run, std::int64_t count) {
  const std::uint64_t key = key_of(100 + static_cast<std::uint64_t>(rank), run);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(testing::random_bits(key, static_cast<std::uint64_t>(i)) % 2001) - 1000);
  }
  return values;
}

/// Runs a collective concurrently with a GEMM on other tensors; each run reads what the stream wrote before it, and
/// later work on the stream reads both results.
void check_beside_product(World& world, const Team& team, const char* algorithm, const Communication& communication) {
  const auto& device = world.shared_device();
  const auto own = static_cast<std::size_t>(team.rank());
  BulkOverlap bulk(team, {.algorithm = algorithm});
  const auto gemm = device->gemm({.m = product_m, .n = product_n, .k = product_k, .transpose_b = true});
  const Stream stream(*device);
  GuardedTensor from(team, {communication.given}, f32);
  GuardedTensor into(team, {communication.made}, f32);
  GuardedTensor d(team, {product_m, product_n}, f32);
  GuardedTensor copies(team, {communication.made + product_m * product_n}, f32);
  for (int run = 0; run < 3; ++run) {
    const std::string what = communication.name + " " + algorithm + ", run " + std::to_string(run);
    const Matrix a = Matrix::random(key_of(own, run), product_m, product_k, f32);
    const Matrix b = Matrix::random(key_of(50 + own, run), product_n, product_k, f32);
    const GuardedTensor a_on = a.on(device, f32);
    const GuardedTensor b_on = b.on(device, f32);
    std::vector<std::vector<double>> given;
    for (int rank = 0; rank < team.size(); ++rank) given.push_back(given_by(rank, run, communication.given));
    const GuardedTensor fresh(device, {communication.given}, f32, given[own]);
    for (GuardedTensor* each : {&from, &into, &d, &copies}) each->poison();

    testing::maybe_delay(stream, testing::random_bits(key_of(200 + own, run), 0));
    device->copy(stream, {.dst = from.view().data(), .src = fresh.view().data(), .bytes = from.view().bytes()});
    bulk(
        stream, [&](StreamRef beside) { communication.queue(from.view(), into.view(), beside); },
        [&](StreamRef main) {
          gemm->run(main, {.a = a_on.view().data(), .b = b_on.view().data(), .d = d.view().data()});
        });
    auto* out = static_cast<std::byte*>(copies.view().data());
    device->copy(stream, {.dst = out, .src = into.view().data(), .bytes = into.view().bytes()});
    device->copy(stream, {.dst = out + into.view().bytes(), .src = d.view().data(), .bytes = d.view().bytes()});
    team.synchronize(stream);

    std::vector<double> made;
    for (std::size_t i = 0; i < static_cast<std::size_t>(communication.made); ++i) {
      made.push_back(communication.expected(given, i));
    }
    std::vector<std::byte> wanted(into.view().bytes());
    testing::store(made, f32, wanted.data());
    const std::vector<std::byte> got = copies.get();
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), got.begin())) << what;
    const auto expected = testing::expected_product({.m = product_m,
                                                     .n = product_n,
                                                     .k = product_k,
                                                     .a = a.values,
                                                     .b = b.transposed().values,
                                                     .start = {},
                                                     .bias = {},
                                                     .parts = {},
                                                     .owners = {},
                                                     .dtype = f32});
    const auto compared = testing::compare(expected, got.data() + wanted.size());
    EXPECT_EQ(compared.wrong, 0) << what << ": " << testing::to_string(compared) << "\n" << bulk.describe();
  }
  team.barrier();
}

/// Calls check_beside_product for each of the five collectives.
void check_all_beside_products(World& world, const Team& team, const char* algorithm) {
  for (const Communication& communication : testing::communications(team, product_m)) {
    check_beside_product(world, team, algorithm, communication);
  }
}

TEST_P(BulkOverlapTest, BothAreRightAtEveryTeamSize) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      for (const char* algorithm : {"auto", "beside", "sequence"}) {
        check_all_beside_products(world, world.team(), algorithm);
      }
    });
  }
}

TEST_P(BulkOverlapTest, SubTeamsInOddOrders) {
  on(5, [](World& world) {
    for (const std::vector<int>& ranks : {std::vector<int>{3, 0, 4}, {1, 2}, {4, 2, 0, 1}}) {
      if (const Team team = world.team(ranks)) check_all_beside_products(world, team, "beside");
    }
    world.team().barrier();
  });
}

// As in a backward pass: an all-reduce concurrent with a linear layer of the same team that itself communicates.
TEST_P(BulkOverlapTest, TheComputeMayCommunicateToo) {
  on(3, [](World& world) {
    const Team& team = world.team();
    const Shard own = shard_of(product_m, team.size(), team.rank());
    BulkOverlap bulk(team, {.algorithm = "beside"});
    AllReduce reduce(team, {.count = 500});
    LinearReduceScatter layer(team, {.m = product_m, .n = product_n, .k = product_k});
    const Stream stream(*world.shared_device());
    std::vector<std::vector<std::byte>> alone;
    for (const bool together : {false, true}) {
      for (int run = 0; run < 5; ++run) {
        const auto rank = static_cast<std::uint64_t>(team.rank());
        const GuardedTensor x =
            Matrix::random(key_of(rank, run), product_m, product_k, f32).on(world.shared_device(), f32);
        const GuardedTensor w =
            Matrix::random(key_of(9 + rank, run), product_n, product_k, f32).on(world.shared_device(), f32);
        GuardedTensor sums(world.shared_device(), {500}, f32, testing::random_values(key_of(20 + rank, run), 500, f32));
        GuardedTensor y(team, {own.count, product_n}, f32);
        const auto communicate = [&](StreamRef on) { reduce(sums.view(), sums.view(), on); };
        const auto compute = [&](StreamRef on) { layer(x.view(), w.view(), y.view(), on); };
        if (together) {
          testing::maybe_delay(stream, testing::random_bits(key_of(30 + rank, run), 0));
          bulk(stream, communicate, compute);
        } else {
          communicate(stream);
          compute(stream);
        }
        team.synchronize(stream);
        std::vector<std::byte> result = sums.get();
        const std::vector<std::byte> rows = y.get();
        result.insert(result.end(), rows.begin(), rows.end());
        if (together) {
          EXPECT_TRUE(result == alone[static_cast<std::size_t>(run)]) << "run " << run;
        } else {
          alone.push_back(std::move(result));
        }
      }
    }
    team.barrier();
  });
}

// Each of the two waits until the other has begun: run one after the other, they would end with a Timeout.
TEST_P(BulkOverlapTest, BothRunAtOnce) {
  on(1, [](World& world) {
    const Team& team = world.team();
    team.set_timeout(5s);
    SymmetricMemory memory = SymmetricMemory::allocate(team, 0, {.channels = 2});
    memory.rendezvous();
    BulkOverlap bulk(team, {.algorithm = "beside"});
    const Stream stream(*world.shared_device());
    const auto meet = [&](StreamRef on, std::uint32_t mine, std::uint32_t theirs) {
      memory.signal_pad().put_signal(on, 0, mine);
      memory.signal_pad().wait_signal(on, 0, theirs);
    };
    for (int run = 0; run < 3; ++run) {
      bulk(stream, [&](StreamRef on) { meet(on, 0, 1); }, [&](StreamRef on) { meet(on, 1, 0); });
      EXPECT_NO_THROW(team.synchronize(stream));
    }
  });
}

TEST_P(BulkOverlapTest, WhatIsThrownIsPassedOnAndTheStreamWaitsForTheRest) {
  on(1, [](World& world) {
    for (const char* algorithm : {"beside", "sequence"}) {
      BulkOverlap bulk(world.team(), {.algorithm = algorithm});
      const Stream stream(*world.shared_device());
      std::atomic<bool> ran = false;
      const auto late = [&](StreamRef on) {
        world.device().launch(on, [&] {
          std::this_thread::sleep_for(20ms);
          ran = true;
        });
      };
      const auto fail = [](StreamRef) { throw std::runtime_error("no such product"); };
      EXPECT_EQ(testing::error_of<std::runtime_error>([&] { bulk(stream, late, fail); }), "no such product");
      world.team().synchronize(stream);
      EXPECT_TRUE(ran) << algorithm;
      EXPECT_EQ(testing::error_of<std::runtime_error>([&] { bulk(stream, fail, late); }), "no such product");
      ran = false;
      bulk(stream, [](StreamRef) {}, late);
      world.team().synchronize(stream);
      EXPECT_TRUE(ran) << algorithm;
    }
  });
}

TEST_P(BulkOverlapTest, SaysWhatItDoesAndWhatItKnows) {
  on(1, [](World& world) {
    const Team& team = world.team();
    const bool hides = !world.device().costs().copies_cost_compute;
    testing::expect_says(BulkOverlap(team).describe(),
                         {"BulkOverlap on 1 rank\n", hides ? "beside (copies leave" : "sequence (copies cost"});
    testing::expect_says(BulkOverlap(team, {.algorithm = "beside"}).describe(), {"beside (asked for)"});
    expect_error<InvalidArgument>([&] { const BulkOverlap bulk(team, {.algorithm = "pipeline"}); },
                                  {"rank 0", "'pipeline'", "auto, beside, sequence"});
    expect_error<InvalidArgument>([&] { const BulkOverlap bulk{Team()}; }, {"not a member"});
    BulkOverlap bulk(team);
    const Stream stream(*world.shared_device());
    const auto nothing = [](StreamRef) {};
    expect_error<InvalidArgument>([&] { bulk(stream, nullptr, nothing); }, {"rank 0", "given to communicate"});
    expect_error<InvalidArgument>([&] { bulk(stream, nothing, nullptr); }, {"rank 0", "given to compute"});
    const BulkOverlap moved = std::move(bulk);
    expect_error<InvalidArgument>(
        [&] { bulk(stream, nothing, nothing); },  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
        {"moved from"});
  });
}

TANDEM_ON_EACH_DEVICE(BulkOverlapTest);

// Whichever stream it runs on.
TEST(BulkOverlapOnTheHost, TellsWhatCommunicationThrows) {
  testing::run_ranks(2, [](World& world) {
    const Stream stream(world.device());
    for (const char* algorithm : {"beside", "sequence"}) {
      BulkOverlap bulk(world.team(), {.algorithm = algorithm});
      const auto communicate = [&](StreamRef s) {
        world.device().launch(s, [] { throw std::runtime_error("no weights"); });
      };
      bulk(stream, communicate, [](StreamRef) {});
      expect_error<std::runtime_error>([&] { stream.synchronize(); }, {"no weights"});
    }
  });
}

TEST(BulkOverlapOnALink, IsBeside) {
  testing::RankOptions options;
  options.env.link = LinkOptions{20us, 1e9};
  testing::run_ranks(
      2,
      [](World& world) {
        testing::expect_says(BulkOverlap(world.team()).describe(), {"beside (copies leave the compute alone)"});
        check_all_beside_products(world, world.team(), "auto");
      },
      options);
}

}  // namespace
}  // namespace tandem

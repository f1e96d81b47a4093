// SPDX-License-Identifier: Apache-2.0
// Only one rank runs out of memory, while a plan is created and while it runs.
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <dlfcn.h>
#include <exception>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"

#include "support/errors.hpp"
#include "support/ranks.hpp"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers define these functions themselves

namespace {

// From which aligned allocation of this thread on all fail (1: the next, 0: all); negative: none does.
thread_local int blocks_left = -1;

bool refused() {
  if (blocks_left > 0) --blocks_left;
  return blocks_left == 0;
}

template <typename Function> Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// These take precedence over the C library's.

extern "C" __attribute__((visibility("default"))) int posix_memalign(void** memory, std::size_t alignment,
                                                                     std::size_t bytes) noexcept {
  static const auto real = next<int(void**, std::size_t, std::size_t)>("posix_memalign");
  return refused() ? ENOMEM : real(memory, alignment, bytes);
}

extern "C" __attribute__((visibility("default"))) void* aligned_alloc(std::size_t alignment,
                                                                      std::size_t bytes) noexcept {
  static const auto real = next<void*(std::size_t, std::size_t)>("aligned_alloc");
  return refused() ? nullptr : real(alignment, bytes);
}

namespace tandem {
namespace {

constexpr LinearSpec spec{.m = 64, .n = 48, .k = 32, .dtype = bf16};

TEST(LinearPlansOutOfMemory, ARankThatFindsNoMemoryTellsTheOthers) {
  const std::vector<std::pair<const char*, std::function<void(const Team&)>>> plans{
      {"AllGatherLinear", [](const Team& team) { const AllGatherLinear plan(team, spec); }},
      {"AllGatherLinear with scales of rows",
       [](const Team& team) {
         const LinearSpec scaled{.m = 64, .n = 48, .k = 32, .dtype = f8e4m3, .scaling = Scaling::per_row};
         const AllGatherLinear plan(team, scaled, {.algorithm = "pipeline"});
       }},
      {"LinearReduceScatter", [](const Team& team) { const LinearReduceScatter plan(team, spec); }},
      {"LinearAllReduce", [](const Team& team) { const LinearAllReduce plan(team, spec); }},
      {"LinearWeightGradient",
       [](const Team& team) { const LinearWeightGradient plan(team, spec, GatheredOperand::x); }},
      {"LinearWeightGradient in a pipeline into bf16",
       [](const Team& team) {
         LinearSpec narrow = spec;
         narrow.gradient_dtype = bf16;
         const LinearWeightGradient plan(team, narrow, GatheredOperand::x, {.algorithm = "pipeline"});
       }},
      {"AllGatherLinear that keeps what it gathers",
       [](const Team& team) {
         const AllGatherLinear plan(team, spec, {.algorithm = "pipeline", .groups = 2, .keep_gathered = true});
       }},
      {"LinearReduceScatter, direct",
       [](const Team& team) { const LinearReduceScatter plan(team, spec, {.algorithm = "direct"}); }},
      {"LinearAllReduce with a bias, in two rounds",
       [](const Team& team) {
         LinearSpec biased = spec;
         biased.bias = true;
         const LinearAllReduce plan(team, biased, {.algorithm = "growing", .groups = 2});
       }},
  };
  testing::run_ranks(3, [&plans](World& world) {
    const bool poor = world.rank() == 1;
    for (const auto& [name, make] : plans) {
      int failures = 0;
      for (int blocks = 1;; ++blocks) {  // this one and all later ones fail, until the plan makes fewer
        SCOPED_TRACE(std::string(name) + ", block " + std::to_string(blocks));
        const Team team = world.team({0, 1, 2});
        world.team().barrier();
        const auto begin = std::chrono::steady_clock::now();
        Parcel outcome;
        if (poor) blocks_left = blocks;
        try {
          make(team);
        } catch (const Aborted&) {
          EXPECT_FALSE(poor);
        } catch (const OutOfMemory& error) {
          EXPECT_TRUE(poor);
          testing::expect_says(error.what(), {"rank 1 of 3"});
          outcome.bytes.resize(1);
        } catch (const std::bad_alloc&) {
          EXPECT_TRUE(poor);
          outcome.bytes.resize(1);
        }
        blocks_left = -1;
        if (world.team().exchange("the outcome", std::move(outcome))[1].bytes.empty()) break;
        EXPECT_LT(std::chrono::steady_clock::now() - begin, team.timeout() / 2);
        testing::expect_error<Aborted>([&] { team.check(); }, {"rank 1 "});
        ++failures;
      }
      EXPECT_GT(failures, 0) << name << " takes no aligned memory any more: this test looks for another kind";
    }
  });
}

/// Allocates as many dense f32 tensors of a rank as a run needs.
class Tensors {
 public:
  explicit Tensors(const Team& team) : team_(team) {}
  TensorView operator()(std::int64_t rows, std::int64_t columns) {
    const Buffer& buffer =
        buffers_.emplace_back(team_.shared_device(), static_cast<std::size_t>(rows * columns) * sizeof(float));
    return {buffer.data(), {rows, columns}, f32};
  }

 private:
  Team team_;
  std::deque<Buffer> buffers_;
};

constexpr LinearSpec layer{.m = 96, .n = 8, .k = 8};
const LinearOptions in_pieces{.algorithm = "pipeline"};

// A host stream keeps its tasks in aligned blocks, so a run throws before its first task or between two of them.
TEST(RunsOutOfMemory, ARankWhoseRunThrowsMidwayTellsTheOthers) {
  using Run = std::function<void(StreamRef)>;
  const std::int64_t m = layer.m;
  const std::vector<std::pair<const char*, std::function<Run(const Team&, Tensors&)>>> runs{
      {"AllGather",
       [](const Team& team, Tensors& tensors) -> Run {
         auto plan = std::make_shared<AllGather>(team, AllGatherSpec{.count = 8192},
                                                 CollectiveOptions{.algorithm = "staged", .piece_bytes = 256});
         return [=, x = tensors(1, 8192), y = tensors(3, 8192)](StreamRef stream) { (*plan)(x, y, stream); };
       }},
      {"AllGather in steps",
       [](const Team& team, Tensors&) -> Run {
         auto plan = std::make_shared<AllGather>(team, AllGatherSpec{.count = 256});
         SymmetricTensor y = SymmetricTensor::empty(team, {3, 256}, f32);
         y.rendezvous();
         return [=](StreamRef stream) {
           plan->start(y, stream);
           plan->finish(stream);
         };
       }},
      {"AllReduce by mail",
       [](const Team& team, Tensors& tensors) -> Run {
         auto plan =
             std::make_shared<AllReduce>(team, AllReduceSpec{.count = 65536}, CollectiveOptions{.algorithm = "mail"});
         return [=, x = tensors(1, 65536)](StreamRef stream) { (*plan)(x, x, stream); };
       }},
      {"AllGatherLinear",
       [=](const Team& team, Tensors& tensors) -> Run {
         auto plan = std::make_shared<AllGatherLinear>(team, layer, in_pieces);
         return [=, x = tensors(m / 3, 8), w = tensors(8, 8), y = tensors(m, 8)](StreamRef stream) {
           (*plan)(x, w, y, stream);
         };
       }},
      {"LinearReduceScatter",
       [=](const Team& team, Tensors& tensors) -> Run {
         auto plan = std::make_shared<LinearReduceScatter>(team, layer, in_pieces);
         return [=, x = tensors(m, 8), w = tensors(8, 8), y = tensors(m / 3, 8)](StreamRef stream) {
           (*plan)(x, w, y, stream);
         };
       }},
      {"LinearAllReduce",
       [=](const Team& team, Tensors& tensors) -> Run {
         auto plan = std::make_shared<LinearAllReduce>(team, layer, in_pieces);
         return [=, x = tensors(m, 8), w = tensors(8, 8), y = tensors(m, 8)](StreamRef stream) {
           (*plan)(x, w, y, stream);
         };
       }},
      {"LinearWeightGradient",
       [=](const Team& team, Tensors& tensors) -> Run {
         auto plan = std::make_shared<LinearWeightGradient>(team, layer, GatheredOperand::x, in_pieces);
         return [=, dy = tensors(m, 8), x = tensors(m / 3, 8), dw = tensors(8, 8)](StreamRef stream) {
           (*plan)(dy, x, dw, stream);
         };
       }},
      {"LinearWeightGradient that was started",
       [=](const Team& team, Tensors& tensors) -> Run {
         auto plan = std::make_shared<LinearWeightGradient>(team, layer, GatheredOperand::x, in_pieces);
         return [=, dy = tensors(m, 8), x = tensors(m / 3, 8), dw = tensors(8, 8)](StreamRef stream) {
           plan->start(x, m, stream);
           (*plan)(dy, x, dw, stream);
         };
       }},
  };
  testing::RankOptions options;
  options.env.timeout = std::chrono::seconds(20);
  const auto body = [&runs](World& world) {
    const bool poor = world.rank() == 1;
    for (const auto& [name, make] : runs) {
      int failures = 0;
      for (int blocks = 1;; ++blocks) {
        SCOPED_TRACE(std::string(name) + ", block " + std::to_string(blocks));
        const Team team = world.team({0, 1, 2});
        Tensors tensors(team);
        const Run run = make(team, tensors);
        const Stream stream(team.device());
        world.team().barrier();
        const auto begin = std::chrono::steady_clock::now();
        Parcel outcome;
        if (poor) blocks_left = blocks;
        try {
          run(stream);
          blocks_left = -1;
          team.synchronize(stream);
        } catch (const Aborted&) {
          EXPECT_FALSE(poor);
        } catch (const std::bad_alloc&) {
          EXPECT_TRUE(poor);
          outcome.bytes.resize(1);
        }
        blocks_left = -1;
        if (world.team().exchange("the outcome", std::move(outcome))[1].bytes.empty()) break;
        EXPECT_LT(std::chrono::steady_clock::now() - begin, team.timeout() / 2);
        testing::expect_error<Aborted>([&] { team.check(); }, {"rank 1 ", "threw midway"});
        stream.synchronize();
        ++failures;
      }
      EXPECT_GT(failures, 0) << name << " takes no aligned memory any more: this test looks for another kind";
    }
  };
  testing::run_ranks(3, body, options);
}

}  // namespace
}  // namespace tandem

#endif

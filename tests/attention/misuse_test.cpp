// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <utility>

#include "tandem/attention/context_parallel_attention.hpp"
#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "attention/shared_sequence.hpp"
#include "support/errors.hpp"

namespace tandem {
namespace {

using testing::expect_error;
using testing::GuardedTensor;
using testing::SharedSequence;

class AttentionMisuseTest : public testing::AttentionOnEachDevice {
 protected:
  static ContextParallelSpec good() {
    return {.tokens = 32, .heads = 4, .kv_heads = 2, .head_dim = 16, .dtype = dtype(), .band = {.right = 0}};
  }
};

TEST_P(AttentionMisuseTest, WhatNoPlanCanBeMadeOf) {
  on(2, [](World& world) {
    const auto refused = [&](auto change, std::initializer_list<std::string> parts) {
      ContextParallelSpec spec = good();
      change(spec);
      expect_error<InvalidArgument>([&] { const ContextParallelAttention attention(world.team(), spec); }, parts);
    };
    refused([](ContextParallelSpec& s) { s.tokens = -1; }, {"ContextParallelAttention on rank", "queries -1"});
    refused([](ContextParallelSpec& s) { s.kv_heads = 3; }, {"4 heads and 3 kv_heads"});
    refused([](ContextParallelSpec& s) { s.head_dim = 0; }, {"head_dim 0"});
    refused([](ContextParallelSpec& s) { s.dtype = f64; }, {"attention of f64"});
    refused([](ContextParallelSpec& s) { s.band.right = -1; }, {"neither bound may be negative"});
    refused([](ContextParallelSpec& s) { s.split = static_cast<SequenceSplit>(9); }, {"its split"});
    // Nothing of this has failed the team.
    SharedSequence shared(world.team(), good(), 1);
    shared.run();
    shared.check();
  });
}

TEST_P(AttentionMisuseTest, RanksThatDifferAreNamed) {
  on(3, [](World& world) {
    ContextParallelSpec spec = good();
    if (world.rank() == 1) spec.tokens = 33;
    expect_error<InvalidArgument>([&] { const ContextParallelAttention attention(world.team(), spec); },
                                  {"ContextParallelAttention", "rank 1", "32 tokens", "33 tokens"});
  });
}

TEST_P(AttentionMisuseTest, AnEmptyTeam) {
  on(1, [](World&) {
    expect_error<InvalidArgument>([] { const ContextParallelAttention attention(Team(), good()); }, {});
  });
}

// What is refused leaves the plan as it was.
TEST_P(AttentionMisuseTest, TensorsThatDoNotFit) {
  on(2, [](World& world) {
    SharedSequence shared(world.team(), good(), 3);
    ContextParallelAttention& attention = shared.attention();
    const SharedSequence::Run& run = shared.fresh();
    const StreamRef stream = shared.stream();
    const TensorView q = run.q.view();
    const TensorView k = run.k.view();
    const TensorView v = run.v.view();
    const TensorView out = run.out.view();
    const TensorView lse = run.lse.view();
    const auto refused = [](const auto& call, std::initializer_list<std::string> parts) {
      expect_error<InvalidArgument>(call, parts);
    };
    const GuardedTensor longer(world.team(), {17, 1, 4, 16}, dtype());
    const GuardedTensor narrow(world.team(), {16, 1, 4, 16}, f64);
    refused([&] { attention.forward(longer.view(), k, v, out, lse, stream); },
            {"ContextParallelAttention", "q", "[17, 1, 4, 16]", "[16, 1, 4, 16]"});
    refused([&] { attention.forward(narrow.view(), k, v, out, lse, stream); }, {"q", "f64"});
    refused([&] { attention.forward(q, q, v, out, lse, stream); }, {"k", "[16, 1, 2, 16]"});
    refused([&] { attention.forward(q, k, v, q, lse, stream); }, {"out", "q"});
    refused([&] { attention.forward(q, k, v, out, run.out.view(), stream); }, {"lse", "[1, 4, 16]"});
    const TensorView dq = run.dq.view();
    const TensorView dk = run.dk.view();
    const TensorView dv = run.dv.view();
    const TensorView grad_out = run.grad_out.view();
    refused([&] { attention.backward(grad_out, q, k, v, out, lse, dq, dk, dk, stream); }, {"dk", "dv"});
    refused([&] { attention.backward(grad_out, q, k, v, out, lse, grad_out, dk, dv, stream); }, {"dq", "grad_out"});
    refused([&] { attention.backward(grad_out, q, k, v, out, lse, dq, k, dv, stream); }, {"dk", "k"});
    shared.forward(run);
    shared.backward(run);
    shared.check();
  });
}

TEST_P(AttentionMisuseTest, GradientsThatWereNotAskedFor) {
  on(2, [](World& world) {
    ContextParallelSpec spec = good();
    spec.gradients = false;
    SharedSequence shared(world.team(), spec, 4);
    const SharedSequence::Run& run = shared.fresh();
    shared.forward(run);
    expect_error<InvalidArgument>([&] { shared.backward(run); }, {"backward was called; its spec has no gradients"});
    shared.check();
  });
}

TEST_P(AttentionMisuseTest, APlanThatWasMovedFrom) {
  on(1, [](World& world) {
    ContextParallelAttention attention(world.team(), good());
    const ContextParallelAttention moved = std::move(attention);
    const TensorView none;
    const Stream stream(world.device());
    expect_error<InvalidArgument>([&] { attention.forward(none, none, none, none, none, stream); }, {});
  });
}

TANDEM_ON_EACH_DEVICE(AttentionMisuseTest);

// What cuDNN takes is less than what the host does.
class CudnnMisuseTest : public AttentionMisuseTest {};

TEST_P(CudnnMisuseTest, WhatItCannotCompute) {
  on(2, [](World& world) {
    ContextParallelSpec spec = good();
    spec.dtype = f32;
    expect_error<Unsupported>([&] { const ContextParallelAttention attention(world.team(), spec); },
                              {"attention of f32", "f16 and bf16"});
    spec = good();
    spec.head_dim = 20;
    expect_error<Unsupported>([&] { const ContextParallelAttention attention(world.team(), spec); },
                              {"heads of 20", "multiples of 8"});
    SharedSequence shared(world.team(), good(), 2);
    shared.run();
    shared.check();
  });
}

TEST_P(CudnnMisuseTest, TensorsThatAreNotAligned) {
  on(2, [](World& world) {
    SharedSequence shared(world.team(), good(), 5);
    ContextParallelAttention& attention = shared.attention();
    const SharedSequence::Run& run = shared.fresh();
    const StreamRef stream = shared.stream();
    const GuardedTensor q(world.team(), {16, 1, 4, 16}, dtype(), 1);
    const GuardedTensor dk(world.team(), {16, 1, 2, 16}, dtype(), 3);
    expect_error<InvalidArgument>(
        [&] { attention.forward(q.view(), run.k.view(), run.v.view(), run.out.view(), run.lse.view(), stream); },
        {"q begins at", "a multiple of 16 bytes"});
    expect_error<InvalidArgument>(
        [&] {
          attention.backward(run.grad_out.view(), run.q.view(), run.k.view(), run.v.view(), run.out.view(),
                             run.lse.view(), run.dq.view(), dk.view(), run.dv.view(), stream);
        },
        {"dk begins at", "a multiple of 16 bytes"});
    shared.forward(run);
    shared.backward(run);
    shared.check();
  });
}

INSTANTIATE_TEST_SUITE_P(Device, CudnnMisuseTest, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem

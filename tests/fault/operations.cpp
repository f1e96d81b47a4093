// SPDX-License-Identifier: Apache-2.0
#include "fault/operations.hpp"

#include <memory>
#include <utility>

#include "tandem/attention/context_parallel_attention.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/bulk_overlap.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/sharded/sharded_parameters.hpp"

namespace tandem::fault {
namespace {

/// Returns Work that runs `plan` once with `body`, and waits for the result.
template <typename Plan, typename Body> Work runs_of(Stage& stage, Plan plan, const Body& body) {
  const Work queue = [&stage, body, plan = std::make_shared<Plan>(std::move(plan))] { body(*plan, stage); };
  return [&stage, again = stage.repeat(stage, queue)] {
    again();
    stage.team.synchronize(stage.stream);
    ++stage.turn;
  };
}

[[nodiscard]] CollectiveOptions by(const char* algorithm) { return {.algorithm = algorithm}; }

constexpr std::int64_t short_count = 40;  // so few that the host sends them as mail

/// Attention in both directions. What it is given is of no interest: all its tensors but the results are the same.
Work attention_runs(Stage& s) {
  const bool host = s.team.device().id().type == DeviceType::host;
  const ContextParallelSpec spec{.tokens = s.messages == Messages::small ? 60 * s.team.size() : 400 * s.team.size(),
                                 .heads = 2,
                                 .kv_heads = 2,
                                 .head_dim = 32,
                                 .dtype = host ? f32 : bf16,
                                 .band = {.right = 0}};
  const std::int64_t tokens = token_count(spec.split, spec.tokens, s.team.size(), s.team.rank());
  const Dims sizes{tokens, 1, 2, 32};
  const auto tensor = [&] {
    const std::size_t bytes = static_cast<std::size_t>(sizes.numel()) * sizeof(float);
    auto memory = std::make_shared<Buffer>(s.team.shared_device(), bytes);
    s.team.device().fill(s.stream, memory->data(), std::byte{0}, bytes);
    return memory;
  };
  return runs_of(s, ContextParallelAttention(s.team, spec),
                 [given = tensor(), out = tensor(), lse = tensor(), dq = tensor(), dk = tensor(), dv = tensor(), sizes,
                  dtype = spec.dtype](auto& plan, Stage& t) {
                   const TensorView x = given->view(sizes, dtype);
                   const TensorView y = out->view(sizes, dtype);
                   const TensorView sums = lse->view({1, sizes[2], sizes[0]}, f32);
                   plan.forward(x, x, x, y, sums, t.stream);
                   plan.backward(x, x, x, x, y, sums, dq->view(sizes, dtype), dk->view(sizes, dtype),
                                 dv->view(sizes, dtype), t.stream);
                 });
}

constexpr Operation operations[] = {
    {"barrier", [](Stage& s) -> Work { return [&s] { s.team.barrier(); }; }, Operation::calls},
    {"making a team",
     [](Stage& s) -> Work {
       return [&s] {
         const Team other = s.team.team(s.everyone_reversed());
         s.team.check();
       };
     },
     Operation::calls},
    {"rendezvous",
     [](Stage& s) -> Work {
       return [&s] {
         auto tensor = SymmetricTensor::empty(s.team, {16}, f32, {.channels = 1});
         tensor.rendezvous();
         tensor.signal_pad().barrier(s.stream, 0);
         s.team.synchronize(s.stream);
       };
     },
     Operation::calls},
    {"making a plan", [](Stage& s) -> Work { return [&s] { const AllReduce plan(s.team, {s.count(), f32}); }; },
     Operation::calls},
    {"AllGather, symmetric",
     [](Stage& s) {
       return runs_of(s, AllGather(s.team, {s.count(), f32}),
                      [](auto& plan, Stage& t) { plan(t.symmetric, t.stream); });
     }},
    {"AllGather, plain",
     [](Stage& s) {
       return runs_of(s, AllGather(s.team, {s.count(), f32}),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.count()}), t.plain(1, {t.all()}), t.stream); });
     }},
    {"ReduceScatter, symmetric",
     [](Stage& s) {
       return runs_of(s, ReduceScatter(s.team, {s.count(), f32}),
                      [](auto& plan, Stage& t) { plan(t.symmetric, t.stream); });
     }},
    {"ReduceScatter, plain",
     [](Stage& s) {
       return runs_of(s, ReduceScatter(s.team, {s.count(), f32}),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.all()}), t.plain(1, {t.count()}), t.stream); });
     }},
    {"AllReduce, symmetric",
     [](Stage& s) {
       return runs_of(s, AllReduce(s.team, {s.all(), f32}), [](auto& plan, Stage& t) { plan(t.symmetric, t.stream); });
     }},
    {"AllReduce, plain",
     [](Stage& s) {
       return runs_of(s, AllReduce(s.team, {s.all(), f32}),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.all()}), t.plain(0, {t.all()}), t.stream); });
     }},
    {"AllGather, short",
     [](Stage& s) {
       return runs_of(s, AllGather(s.team, {short_count, f32}), [](auto& plan, Stage& t) {
         plan(t.plain(0, {short_count}), t.plain(1, {t.team.size() * short_count}), t.stream);
       });
     }},
    {"ReduceScatter, short",
     [](Stage& s) {
       return runs_of(s, ReduceScatter(s.team, {short_count, f32}), [](auto& plan, Stage& t) {
         plan(t.plain(0, {t.team.size() * short_count}), t.plain(1, {short_count}), t.stream);
       });
     }},
    {"AllReduce, short",
     [](Stage& s) {
       return runs_of(s, AllReduce(s.team, {short_count, f32}), [](auto& plan, Stage& t) {
         plan(t.plain(0, {short_count}), t.plain(1, {short_count}), t.stream);
       });
     }},
    {"AllGather, push",
     [](Stage& s) {
       return runs_of(s, AllGather(s.team, {s.count(), f32}, by("push")),
                      [](auto& plan, Stage& t) { plan(t.symmetric, t.stream); });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"AllGather, in steps",
     [](Stage& s) {
       return runs_of(s, AllGather(s.team, {s.count(), f32}), [](auto& plan, Stage& t) {
         plan.start(t.symmetric, t.stream);
         for (int rank = 0; rank < t.team.size(); ++rank) plan.wait_shard(rank, t.stream);
         plan.finish(t.stream);
       });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"AllGather, staged",
     [](Stage& s) {
       return runs_of(s, AllGather(s.team, {s.count(), f32}, by("staged")),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.count()}), t.plain(1, {t.all()}), t.stream); });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"AllGather, direct_kernel",
     [](Stage& s) {
       return runs_of(s, AllGather(s.team, {s.count(), f32}, by("direct_kernel")),
                      [](auto& plan, Stage& t) { plan(t.symmetric, t.stream); });
     },
     Operation::runs, Operation::cuda, Messages::bulk},
    {"ReduceScatter, direct",
     [](Stage& s) {
       return runs_of(s, ReduceScatter(s.team, {s.count(), f32}, by("direct")),
                      [](auto& plan, Stage& t) { plan(t.symmetric, t.stream); });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"ReduceScatter, staged",
     [](Stage& s) {
       return runs_of(s, ReduceScatter(s.team, {s.count(), f32}, by("staged")),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.all()}), t.plain(1, {t.count()}), t.stream); });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"ReduceScatter, push",
     [](Stage& s) {
       return runs_of(s, ReduceScatter(s.team, {s.count(), f32}, by("push")),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.all()}), t.plain(1, {t.count()}), t.stream); });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"AllReduce, one_shot",
     [](Stage& s) {
       return runs_of(s, AllReduce(s.team, {s.all(), f32}, by("one_shot")),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.all()}), t.plain(1, {t.all()}), t.stream); });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"AllReduce, two_shot",
     [](Stage& s) {
       return runs_of(s, AllReduce(s.team, {s.all(), f32}, by("two_shot")),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.all()}), t.plain(1, {t.all()}), t.stream); });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"AllReduce, two_shot in place",
     [](Stage& s) {
       return runs_of(s, AllReduce(s.team, {s.all(), f32}, by("two_shot")),
                      [](auto& plan, Stage& t) { plan(t.symmetric, t.stream); });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"AllReduce, direct_kernel",
     [](Stage& s) {
       return runs_of(s, AllReduce(s.team, {s.all(), f32}, by("direct_kernel")),
                      [](auto& plan, Stage& t) { plan(t.symmetric, t.stream); });
     },
     Operation::runs, Operation::cuda, Messages::bulk},
    {"ShardedParameters",
     [](Stage& s) {
       const ShardedSpec spec{.groups = {{"first", {{"weight", {s.count()}}}}, {"second", {{"weight", {s.all()}}}}},
                              .dtype = f32};
       return runs_of(s, ShardedParameters(s.team, spec), [](auto& plan, Stage& t) {
         for (const int group : {0, 1}) {
           static_cast<void>(plan.unshard(group, t.stream));
           plan.reshard(group, t.stream);
         }
         for (const int group : {1, 0}) {
           static_cast<void>(plan.unshard(group, t.stream));
           static_cast<void>(plan.gradients(group, t.stream));
           plan.reduce_gradients(group, t.stream);
           plan.reshard(group, t.stream);
         }
         plan.finish(t.stream);
       });
     }},
    {"ContextParallelAttention", &attention_runs},
    {"BulkOverlap",
     [](Stage& s) {
       const auto gather = std::make_shared<AllGather>(s.team, AllGatherSpec{s.count(), f32}, by("push"));
       const LinearSpec l = s.spec();
       const std::shared_ptr<Gemm> gemm = s.team.device().gemm({.m = l.m, .n = l.n, .k = l.k, .transpose_b = true});
       return runs_of(s, BulkOverlap(s.team, {.algorithm = "beside"}), [gather, gemm, l](auto& bulk, Stage& t) {
         bulk(
             t.stream, [&](StreamRef beside) { (*gather)(t.symmetric, beside); },
             [&](StreamRef main) {
               gemm->run(main, {.a = t.plain(0, {l.m, l.k}).data(),
                                .b = t.plain(1, {l.n, l.k}).data(),
                                .d = t.plain(2, {l.m, l.n}).data()});
             });
       });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"AllToAll, symmetric",
     [](Stage& s) {
       return runs_of(s, AllToAll(s.team, {s.count(), f32}),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.all()}), t.symmetric, t.stream); });
     }},
    {"AllToAll, plain",
     [](Stage& s) {
       return runs_of(s, AllToAll(s.team, {s.count(), f32}),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.all()}), t.plain(1, {t.all()}), t.stream); });
     }},
    {"AllToAll, out of symmetric",
     [](Stage& s) {
       return runs_of(s, AllToAll(s.team, {s.count(), f32}),
                      [](auto& plan, Stage& t) { plan(t.symmetric, t.plain(1, {t.all()}), t.stream); });
     },
     Operation::runs, Operation::any_device, Messages::bulk},
    {"AllToAll, direct_kernel",
     [](Stage& s) {
       return runs_of(s, AllToAll(s.team, {s.count(), f32}, by("direct_kernel")),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.all()}), t.symmetric, t.stream); });
     },
     Operation::runs, Operation::cuda, Messages::bulk},
    {"AllToAll, with counts",
     [](Stage& s) {
       return runs_of(s, AllToAll(s.team, {s.count(), f32}), [](auto& plan, Stage& t) {
         const std::vector<std::int64_t> counts = t.counts();
         std::int64_t sent = 0;
         for (int to = 0; to < t.team.size(); ++to) {
           sent += counts[static_cast<std::size_t>(t.team.rank() * t.team.size() + to)];
         }
         plan(t.plain(0, {sent}), t.symmetric, counts, t.stream);
       });
     }},
    {"Broadcast, symmetric",
     [](Stage& s) {
       return runs_of(s, Broadcast(s.team, {s.all(), f32}),
                      [](auto& plan, Stage& t) { plan(t.symmetric, t.turn % t.team.size(), t.stream); });
     }},
    {"Broadcast, plain",
     [](Stage& s) {
       return runs_of(s, Broadcast(s.team, {s.all(), f32}),
                      [](auto& plan, Stage& t) { plan(t.plain(0, {t.all()}), t.turn % t.team.size(), t.stream); });
     }},
    {"AllGatherLinear",
     [](Stage& s) {
       return runs_of(s, AllGatherLinear(s.team, s.spec(), s.options()), [](auto& plan, Stage& t) {
         const LinearSpec& l = plan.spec();
         plan(t.plain(0, {t.own_rows(), l.k}), t.plain(1, {l.n, l.k}), t.plain(2, {l.m, l.n}), t.stream);
       });
     }},
    {"LinearReduceScatter",
     [](Stage& s) {
       return runs_of(s, LinearReduceScatter(s.team, s.spec(), s.options()), [](auto& plan, Stage& t) {
         const LinearSpec& l = plan.spec();
         plan(t.plain(0, {l.m, l.k}), t.plain(1, {l.n, l.k}), t.plain(2, {t.own_rows(), l.n}), t.stream);
       });
     }},
    {"LinearReduceScatter, direct",
     [](Stage& s) {
       return runs_of(s, LinearReduceScatter(s.team, s.spec(), LinearOptions{.algorithm = "direct"}),
                      [](auto& plan, Stage& t) {
                        const LinearSpec& l = plan.spec();
                        plan(t.plain(0, {l.m, l.k}), t.plain(1, {l.n, l.k}), t.plain(2, {t.own_rows(), l.n}), t.stream);
                      });
     }},
    {"LinearAllReduce",
     [](Stage& s) {
       return runs_of(s, LinearAllReduce(s.team, s.spec(), s.options()), [](auto& plan, Stage& t) {
         const LinearSpec& l = plan.spec();
         plan(t.plain(0, {l.m, l.k}), t.plain(1, {l.n, l.k}), t.plain(2, {l.m, l.n}), t.stream);
       });
     }},
    {"LinearAllReduce, direct",
     [](Stage& s) {
       return runs_of(s, LinearAllReduce(s.team, s.spec(), LinearOptions{.algorithm = "direct"}),
                      [](auto& plan, Stage& t) {
                        const LinearSpec& l = plan.spec();
                        plan(t.plain(0, {l.m, l.k}), t.plain(1, {l.n, l.k}), t.plain(2, {l.m, l.n}), t.stream);
                      });
     }},
    {"LinearWeightGradient",
     [](Stage& s) {
       return runs_of(s, LinearWeightGradient(s.team, s.spec(), GatheredOperand::x, s.options()),
                      [](auto& plan, Stage& t) {
                        const LinearSpec& l = plan.spec();
                        plan(t.plain(0, {l.m, l.n}), t.plain(1, {t.own_rows(), l.k}), t.plain(2, {l.n, l.k}), t.stream);
                      });
     }},
};

}  // namespace

std::span<const Operation> all_operations() { return operations; }

Work queued(Stage& /*stage*/, const Work& queue) { return queue; }

}  // namespace tandem::fault

// SPDX-License-Identifier: Apache-2.0
// Misuse of the collectives: each gives an error that says what was given, what is allowed, and on which rank.
#include <array>
#include <cstdint>
#include <limits>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"

#include "collective/support.hpp"
#include "memory/private_memory.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

class CollectiveMisuseOn : public OnEachDevice {};

TEST_P(CollectiveMisuseOn, TensorsThatDoNotFit) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    AllGather all_gather(team, {.count = 8, .dtype = f32});
    ReduceScatter reduce_scatter(team, {.count = 8, .dtype = f32});
    AllReduce all_reduce(team, {.count = 8, .dtype = f32});
    AllToAll all_to_all(team, {.count = 8, .dtype = f32});
    Broadcast broadcast(team, {.count = 8, .dtype = f32});
    const Buffer memory(team.shared_device(), 64 * sizeof(float));
    const DeviceId here = team.device().id();
    const auto of = [&](std::int64_t count) { return memory.view({count}, f32); };
    const TensorView eight = of(8);
    const TensorView sixteen = of(16);
    const TensorView halves = memory.view({8}, f16);
    const TensorView strided(memory.data(), {8}, {2}, f32, here);
    const TensorView elsewhere(memory.data(), {8}, f32, {DeviceType::cuda, 13});
    const TensorView between(memory.data_as<std::byte>() + 2, {8}, f32, here);

    expect_error<InvalidArgument>([&] { all_reduce(halves, eight, stream); },
                                  {"AllReduce on rank", "input is f16[8]", "this plan is for f32"});
    expect_error<InvalidArgument>([&] { all_reduce(eight, halves, stream); }, {"out is f16[8]"});
    expect_error<InvalidArgument>([&] { all_reduce(eight, of(7), stream); },
                                  {"out is f32[7]", "7 elements; 8 are needed"});
    expect_error<InvalidArgument>([&] { all_reduce(sixteen, sixteen, stream); },
                                  {"input has 16 elements; this plan is for at most 8"});
    expect_error<InvalidArgument>([&] { all_reduce(strided, eight, stream); }, {"strides [2]", "must be dense"});
    expect_error<InvalidArgument>([&] { all_reduce(elsewhere, eight, stream); },
                                  {"on cuda:13", "this rank's device is " + to_string(here)});
    expect_error<InvalidArgument>(
        [&] { all_reduce(eight, between, stream); },
        {"AllReduce on rank", "out lies at 0x", "2 bytes behind an element's place", "4 bytes"});
    expect_error<InvalidArgument>([&] { all_gather(eight, eight, stream); }, {"shard is f32[8]", "4 are needed"});
    expect_error<InvalidArgument>([&] { all_gather(sixteen, of(32), stream); },
                                  {"a shard has 16 elements; this plan is for at most 8"});
    expect_error<InvalidArgument>([&] { reduce_scatter(sixteen, sixteen, stream); },
                                  {"shard is f32[16]", "8 are needed"});
    expect_error<InvalidArgument>([&] { reduce_scatter(halves, eight, stream); }, {"input is f16[8]"});
    expect_error<InvalidArgument>([&] { all_to_all(of(7), eight, stream); }, {"7 elements", "equal parts for 2 ranks"});
    expect_error<InvalidArgument>([&] { all_to_all(sixteen, eight, stream); }, {"out is f32[8]", "16 are needed"});
    expect_error<InvalidArgument>([&] { all_to_all(eight, eight, std::vector<std::int64_t>{1, 2, 3}, stream); },
                                  {"3 counts were given; 2 ranks need 4"});
    expect_error<InvalidArgument>([&] { all_to_all(eight, eight, std::vector<std::int64_t>{1, -2, 3, 4}, stream); },
                                  {"-2 elements from rank 0 to rank 1", "0 to 8"});
    expect_error<InvalidArgument>([&] { all_to_all(eight, eight, std::vector<std::int64_t>{1, 2, 9, 4}, stream); },
                                  {"9 elements from rank 1 to rank 0", "0 to 8"});
    expect_error<InvalidArgument>([&] { broadcast(eight, 2, stream); }, {"root 2 was given; allowed: 0 to 1"});
    expect_error<InvalidArgument>([&] { broadcast(eight, -1, stream); }, {"root -1 was given"});
    expect_error<InvalidArgument>([&] { broadcast(sixteen, 0, stream); }, {"out has 16 elements", "at most 8"});

    // None of these errors leaves anything behind: the plans still work.
    all_reduce(eight, eight, stream);
    broadcast(eight, 1, stream);
    team.synchronize(stream);
  });
}

TEST_P(CollectiveMisuseOn, SymmetricTensorsThatDoNotFit) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const Team other = team.team({0, 1});
    const Stream stream(team.device());
    AllReduce all_reduce(team, {.count = 8, .dtype = f32});
    AllGather all_gather(team, {.count = 8, .dtype = f32});
    AllToAll all_to_all(team, {.count = 8, .dtype = f32});
    const SymmetricTensor foreign = symmetric(other, {8}, f32);
    const SymmetricTensor small = symmetric(team, {2}, f32);
    const SymmetricTensor good = symmetric(team, {8}, f32);
    const Buffer memory(team.shared_device(), 16 * sizeof(float));
    const TensorView eight = memory.view({8}, f32);

    expect_error<InvalidArgument>([&] { all_reduce(SymmetricTensor(), stream); }, {"never made"});
    expect_error<InvalidArgument>([&] { all_reduce(SymmetricTensor::empty(team, {8}, f32), stream); },
                                  {"had no rendezvous", "on all ranks"});
    expect_error<InvalidArgument>([&] { all_reduce(foreign, stream); }, {"of team", "this plan is of team"});
    expect_error<InvalidArgument>([&] { all_reduce(eight, small, stream); }, {"out is f32[2]", "8 are needed"});
    expect_error<InvalidArgument>([&] { all_to_all(eight, small, std::vector<std::int64_t>{4, 4, 4, 4}, stream); },
                                  {"room for 2 elements", "needs 8"});
    expect_error<InvalidArgument>([&] { all_gather.wait_shard(0, stream); }, {"before start()"});
    expect_error<InvalidArgument>([&] { all_gather.finish(stream); }, {"without start()"});
    all_gather.start(good, stream);
    expect_error<InvalidArgument>([&] { all_gather.start(good, stream); }, {"another one is open", "finish()"});
    expect_error<InvalidArgument>([&] { all_gather.wait_shard(2, stream); }, {"shard of rank 2", "0 to 1"});
    all_gather.wait_shard(1 - team.rank(), stream);
    expect_error<InvalidArgument>([&] { all_gather.wait_shard(1 - team.rank(), stream); }, {"waited for twice"});
    all_gather.finish(stream);
    team.synchronize(stream);
  });
}

TEST(CollectiveMisuse, PlansThatCannotBe) {
  run_ranks(2, [](World& world) {
    const Team& team = world.team();
    expect_error<InvalidArgument>([&] { AllReduce(team, {.count = 8, .dtype = f32}, {.algorithm = "ring"}); },
                                  {"algorithm 'ring' is not known; known: auto, one_shot, two_shot, fetch, mail, "
                                   "one_kernel, one_kernel_two_shot, direct_kernel"});
    expect_error<InvalidArgument>([&] { AllGather(team, {.count = 8, .dtype = f32}, {.algorithm = "ring"}); },
                                  {"known: auto, push, staged, fetch, mail, one_kernel, direct_kernel"});
    expect_error<InvalidArgument>([&] { ReduceScatter(team, {.count = 8, .dtype = f32}, {.algorithm = "ring"}); },
                                  {"known: auto, direct, staged, fetch, mail, one_kernel, direct_kernel"});
    expect_error<InvalidArgument>([&] { AllToAll(team, {.count = 8, .dtype = f32}, {.algorithm = "ring"}); },
                                  {"known: auto, push, pull, staged, fetch, mail, one_kernel, direct_kernel"});
    expect_error<InvalidArgument>([&] { Broadcast(team, {.count = 8, .dtype = f32}, {.algorithm = "tree"}); },
                                  {"known: auto, push, pull, staged, fetch, mail, one_kernel, direct_kernel"});
    expect_error<InvalidArgument>([&] { AllReduce(team, {.count = -1, .dtype = f32}); }, {"a count of -1"});
    constexpr auto unknown = static_cast<DType>(77);
    expect_error<InvalidArgument>([&] { AllReduce(team, {.count = 8, .dtype = unknown}); },
                                  {"dtype number 77 is not known; known: f32, f16,"});
    expect_error<InvalidArgument>([&] { static_cast<void>(SymmetricTensor::empty(team, {8}, unknown)); },
                                  {"dtype number 77"});
    // A function's plan is for the next power of two, which for this count no number of 64 bits can hold.
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    int place = 0;
    const TensorView endless(&place, {most}, u8, team.device().id());
    const Stream stream(team.device());
    expect_error<InvalidArgument>([&] { all_reduce(team, endless, endless, stream); },
                                  {"a count of 9223372036854775807; allowed: 0 to 281474976710656"});
    // The parts for two ranks would have 2^63 elements, more than a signed 64-bit count can hold.
    expect_error<InvalidArgument>(
        [&] { AllToAll(team, {.count = std::int64_t{1} << 62U, .dtype = u8}); },
        {"AllToAll on rank", "a count of 4611686018427387904; allowed: 0 to 281474976710656"});
    expect_error<InvalidArgument>([&] { AllReduce(team, {.count = 8, .dtype = f8e4m3}); },
                                  {"f8e4m3 cannot be summed", "f32, f16, bf16, f64, i32, i64"});
    expect_error<InvalidArgument>([&] { ReduceScatter(team, {.count = 8, .dtype = u8}); }, {"u8 cannot be summed"});
    expect_error<InvalidArgument>([&] { AllReduce(team, {.count = 8}, {.algorithm = "one_shot", .staging = false}); },
                                  {"one_shot", "staging"});
    expect_error<InvalidArgument>([&] { AllReduce(team, {.count = 8}, {.algorithm = "one_kernel", .staging = false}); },
                                  {"'one_kernel' was asked for without staging", "one_kernel needs it"});
    expect_error<Unsupported>([&] { AllReduce(team, {.count = 8}, {.algorithm = "one_kernel"}); },
                              {"'one_kernel' was asked for, and", "has no kernel for it"});
    expect_error<Unsupported>([&] { AllGather(team, {.count = 8}, {.algorithm = "direct_kernel"}); },
                              {"'direct_kernel' was asked for", "host does not have it, CUDA devices do"});
    expect_error<InvalidArgument>([&] { AllGather(team, {.count = 8}, {.algorithm = "direct_kernel", .sms = 0}); },
                                  {"'direct_kernel' was asked for on 0 SMs"});
    expect_error<InvalidArgument>([&] { AllReduce(team, {.count = 8}, {.sms = -1}); }, {"sms is -1", "0 or more"});
    expect_error<InvalidArgument>([&] { ReduceScatter(team, {.count = 8}, {.sms = 0}); }, {"sms is 0", "1 at least"});
    expect_error<InvalidArgument>([&] { AllGather(team, {.count = 8}, {.algorithm = "one_kernel", .sms = 0}); },
                                  {"'one_kernel' was asked for on 0 SMs"});
    expect_error<InvalidArgument>([&] { AllGather(team, {.count = 8}, {.algorithm = "mail", .staging = false}); },
                                  {"'mail' was asked for without staging", "mail needs it"});
    expect_error<InvalidArgument>([&] { AllGather(team, {.count = 8}, {.algorithm = "staged", .staging = false}); },
                                  {"'staged' was asked for without staging", "staged needs it"});
    expect_error<InvalidArgument>([&] { AllToAll(team, {.count = 8}, {.algorithm = "fetch", .staging = false}); },
                                  {"'fetch' was asked for without staging", "fetch needs it"});
    expect_error<InvalidArgument>([&] { Broadcast(team, {.count = 8}, {.algorithm = "staged", .staging = false}); },
                                  {"'staged' was asked for without staging", "staged needs it"});

    AllGather push(team, {.count = 8, .dtype = f32}, {.algorithm = "push"});
    AllGather staged(team, {.count = 8, .dtype = f32}, {.algorithm = "staged"});
    expect_says(push.describe(), {"into symmetric tensors: push\n", "into plain views: not taken by algorithm push\n"});
    expect_says(staged.describe(),
                {"into symmetric tensors: not taken by algorithm staged\n", "into plain views: staged\n"});
    const AllGather bare(team, {.count = 1 << 20, .dtype = f32}, {.staging = false});
    expect_says(bare.describe(), {"into symmetric tensors: push\n", "into plain views: not taken without staging\n"});
    std::vector<float> memory(16);
    const TensorView four(memory.data(), {4}, f32);
    const TensorView eight(memory.data(), {8}, f32);
    expect_error<InvalidArgument>([&] { push(four, eight, stream); },
                                  {"'push' is not for a plain view", "'staged', 'fetch', 'mail'"});
    const SymmetricTensor tensor = symmetric(team, {8}, f32);
    expect_error<InvalidArgument>([&] { staged(tensor, stream); },
                                  {"'staged' is not for a symmetric tensor", "takes 'push', 'mail'"});
    AllGather mail(team, {.count = 8, .dtype = f32}, {.algorithm = "mail"});
    expect_error<InvalidArgument>([&] { mail.start(tensor, stream); }, {"'mail' is not for a run in steps"});
  });
}

TEST_P(CollectiveMisuseOn, AlgorithmsOfSymmetricTensorsTakeNoPlainViews) {
  on(2, [](World& world) {
    const Team& team = world.team();
    if (!team.device().meets()) GTEST_SKIP() << "this device has no kernels on peers' symmetric tensors";
    const Stream stream(team.device());
    const Buffer memory(team.shared_device(), 8 * sizeof(float));
    const TensorView eight = memory.view({8}, f32);
    AllReduce all_reduce(team, {.count = 8, .dtype = f32}, {.algorithm = "direct_kernel"});
    expect_says(all_reduce.describe(), {"into symmetric tensors: direct_kernel\n", "between plain views: not taken"});
    expect_error<InvalidArgument>([&] { all_reduce(eight, eight, stream); },
                                  {"'direct_kernel' is not for two plain views", "'two_shot'"});
    AllToAll all_to_all(team, {.count = 4, .dtype = f32}, {.algorithm = "direct_kernel"});
    expect_error<InvalidArgument>([&] { all_to_all(eight, eight, stream); },
                                  {"'direct_kernel' is not for plain views", "'staged'"});
    Broadcast broadcast(team, {.count = 8, .dtype = f32}, {.algorithm = "direct_kernel"});
    expect_error<InvalidArgument>([&] { broadcast(eight, 0, stream); },
                                  {"'direct_kernel' is not for a plain view", "'staged'"});
  });
}

TEST_P(CollectiveMisuseOn, RanksThatMakeDifferentPlans) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const bool first = team.rank() == 0;
    expect_error<InvalidArgument>([&] { AllReduce(team, {.count = first ? 8 : 9, .dtype = f32}); },
                                  {"of up to 8 f32", "of up to 9 f32"});
  });
  on(2, [](World& world) {
    const Team& team = world.team();
    const bool first = team.rank() == 0;
    expect_error<InvalidArgument>(
        [&] {
          if (first) {
            AllReduce(team, {.count = 8, .dtype = f32});
          } else {
            ReduceScatter(team, {.count = 8, .dtype = f32});
          }
        },
        {"AllReduce", "ReduceScatter"});
  });
}

TEST_P(CollectiveMisuseOn, ARankOutsideOfTheTeam) {
  on(3, [](World& world) {
    const Team team = world.team({2, 0});
    if (team) {
      AllReduce all_reduce(team, {.count = 8, .dtype = f32});
    } else {
      expect_error<InvalidArgument>([&] { AllReduce(team, {.count = 8, .dtype = f32}); },
                                    {"this team is empty", "not one of its members"});
      const Buffer memory(world.shared_device(), 8 * sizeof(float));
      const TensorView eight = memory.view({8}, f32);
      const Stream stream(world.device());
      expect_error<InvalidArgument>([&] { all_reduce(team, eight, eight, stream); }, {"this team is empty"});
    }
  });
}

TEST_P(CollectiveMisuseOn, WhatTheDeviceHasNotCannotBeAskedFor) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const Device& device = team.device();
    const AllReduceSpec spec{.count = 8, .dtype = f32};
    const auto expect_none = [&](const char* algorithm, const std::string& why) {
      expect_error<Unsupported>([&] { AllReduce(team, spec, {.algorithm = algorithm}); },
                                {"AllReduce on rank", "'" + std::string(algorithm) + "' was asked for", why});
    };
    if (!device.sends_letters()) expect_none("mail", to_string(device.id()) + " sends no letters");
    if (!device.exchanges_mail()) expect_none("one_kernel", "has no kernel for it");
    if (!device.meets()) expect_none("direct_kernel", "does not have it");
    if (!why_no_loans(team).empty()) expect_none("fetch", why_no_loans(team));
    // After the errors, the ranks can continue.
    const SymmetricTensor tensor = symmetric(team, {8}, f32);
    const Stream stream(team.device());
    AllReduce plan(team, spec);
    plan(tensor, stream);
    team.synchronize(stream);
  });
}

TANDEM_ON_EACH_DEVICE(CollectiveMisuseOn);

/// From now on, processes of this user cannot read this one, nor can this one read others that have called this.
void forbid_reading() {
  ::prctl(PR_SET_DUMPABLE, 0);
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> sets{};
  ASSERT_EQ(::syscall(SYS_capget, &header, sets.data()), 0);
  sets[0].effective &= ~(1U << CAP_SYS_PTRACE);
  sets[0].permitted &= ~(1U << CAP_SYS_PTRACE);
  ASSERT_EQ(::syscall(SYS_capset, &header, sets.data()), 0);
}

TEST(CollectiveMisuse, RanksThatMayNotReadEachOther) {
  const auto body = [](World& world) {
    const Team& team = world.team();
    if (team.peer(0).pid == team.peer(1).pid) GTEST_SKIP() << "ranks of one process may read each other as they please";
    expect_says(why_no_loans(team), {"rank", " cannot read rank ", "Operation not permitted"});
    expect_error<Unsupported>([&] { AllReduce(team, {.count = 8}, {.algorithm = "fetch"}); },
                              {"'fetch' was asked for", "Operation not permitted"});
    // If "fetch" was not requested, another algorithm runs, and `describe` says why.
    constexpr std::int64_t count = 100'000;
    AllGather gather(team, {.count = count, .dtype = i32});
    expect_says(gather.describe(),
                {"into plain views: mail up to 2 KiB, staged\n", "no fetch: ", "Operation not permitted"});
    const std::vector<std::int32_t> mine(count, team.rank() + 1);
    std::vector<std::int32_t> all(2 * count);
    const Stream stream(team.device());
    gather({const_cast<std::int32_t*>(mine.data()), {count}, i32}, {all.data(), {2 * count}, i32}, stream);
    team.synchronize(stream);
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i < count ? 1 : 2) << i;
  };
  run_ranks(2, body, {.before_init = [](int) { forbid_reading(); }});
}

TEST(CollectiveMisuse, DescribeSaysWhatRuns) {
  run_ranks(2, [](World& world) {
    const Team& team = world.team();
    const AllReduce chosen(team, {.count = 8, .dtype = bf16});
    EXPECT_NE(chosen.describe().find("AllReduce of up to 8 bf16"), std::string::npos) << chosen.describe();
    expect_says(chosen.describe(), {"\ninto symmetric tensors: mail\n", "\nbetween plain views: mail\n"});
    const AllReduce asked(team, {.count = 8, .dtype = bf16}, {.algorithm = "two_shot"});
    expect_says(asked.describe(), {"algorithm two_shot", "between plain views: two_shot\n", "\ntwo_shot: "});
    if (can_fetch(team)) {
      const AllReduce plain(team, {.count = 8, .dtype = bf16}, {.algorithm = "fetch"});
      expect_says(plain.describe(), {"into symmetric tensors: not taken by algorithm fetch\n", "plain views: fetch\n"});
    }
    expect_says(AllReduce(team, {.count = 8}, {.sms = 2}).describe(), {"sms: no effect on the host"});
    const Broadcast broadcast(team, {.count = 8, .dtype = bf16}, {.algorithm = "push"});
    expect_says(broadcast.describe(), {"into symmetric tensors: push\n", "\npush: copies of the root's"});
  });
  run_ranks(1, [](World& world) {
    const AllReduce alone(world.team(), {.count = 8, .dtype = bf16});
    EXPECT_NE(alone.describe().find("one rank has nobody to add"), std::string::npos) << alone.describe();
  });
}

}  // namespace
}  // namespace tandem::testing

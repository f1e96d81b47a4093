// SPDX-License-Identifier: Apache-2.0
// TANDEM_CHECK=runs: if ranks pass different arguments to a run, every rank gets an error before anything is queued.
#include <cstdint>
#include <functional>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/buffer.hpp"

#include "collective/support.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

class ComparedRuns : public OnEachDevice {
 protected:
  static void on_three(const std::function<void(World&)>& body) {
    Env env;
    env.check = RunCheck::runs;
    on(3, body, {.env = env});
  }
};

TEST_P(ComparedRuns, DifferentArgumentsAreToldOnEveryRank) {
  on_three([](World& world) {
    const Team& team = world.team();
    const bool odd = team.rank() == 2;  // this rank is passed other arguments
    const Stream stream(team.device());
    AllGather all_gather(team, {.count = 9, .dtype = f32});
    ReduceScatter reduce_scatter(team, {.count = 9, .dtype = f32});
    AllReduce all_reduce(team, {.count = 9, .dtype = f32});
    AllToAll all_to_all(team, {.count = 9, .dtype = f32});
    Broadcast broadcast(team, {.count = 9, .dtype = f32});
    AllReduce alike(team, {.count = 9, .dtype = f32});
    const Buffer memory(team.shared_device(), 64 * sizeof(float));
    const Buffer results(team.shared_device(), 64 * sizeof(float));
    const auto of = [&](std::int64_t count) { return memory.view({count}, f32); };
    const auto into = [&](std::int64_t count) { return results.view({count}, f32); };
    const SymmetricTensor one = symmetric(team, {9}, f32);
    const SymmetricTensor other = symmetric(team, {9}, f32);
    const SymmetricTensor& either = odd ? other : one;
    const std::int64_t few = odd ? 3 : 6;
    const std::int64_t own = few / 3;

    expect_error<InvalidArgument>([&] { all_reduce(of(few), into(few), stream); },
                                  {"call 'AllReduce' with different arguments", "rank 0", "rank 2",
                                   "a run of 6 elements between plain views'", "a run of 3 elements"});
    expect_error<InvalidArgument>(
        [&] { (odd ? alike : all_reduce)(of(9), into(9), stream); },
        {"'AllReduce'", "'plan ", "(AllReduce ", "), a run of 9 elements between plain views'"});
    expect_error<InvalidArgument>([&] { all_reduce(either, stream); }, {"a run of 9 elements, symmetric tensor "});
    expect_error<InvalidArgument>([&] { all_reduce(of(9), either, stream); }, {"a plain view into symmetric tensor "});
    expect_error<InvalidArgument>([&] { all_reduce(either, into(9), stream); }, {"into a plain view"});
    // An empty run also differs from one that is not empty.
    expect_error<InvalidArgument>([&] { all_reduce(of(odd ? 0 : 6), into(odd ? 0 : 6), stream); },
                                  {"a run of 0 elements"});
    expect_error<InvalidArgument>([&] { odd ? all_reduce(one, stream) : all_reduce(of(9), into(9), stream); },
                                  {"between plain views", "symmetric tensor"});
    expect_error<InvalidArgument>([&] { all_gather(of(own), into(few), stream); },
                                  {"'AllGather'", "6 elements, 2 a rank", "3 elements, 1 a rank"});
    expect_error<InvalidArgument>([&] { all_gather(of(3), either, stream); }, {"a run of 9 elements, 3 a rank into"});
    expect_error<InvalidArgument>([&] { odd ? all_gather(of(3), one, stream) : all_gather.start(of(3), one, stream); },
                                  {"the start of a run of 9 elements"});
    expect_error<InvalidArgument>([&] { reduce_scatter(of(few), into(own), stream); }, {"'ReduceScatter'"});
    expect_error<InvalidArgument>([&] { reduce_scatter(either, into(3), stream); }, {"of symmetric tensor "});
    expect_error<InvalidArgument>([&] { all_to_all(of(few), into(few), stream); },
                                  {"'AllToAll'", "2 elements a pair", "1 elements a pair"});
    expect_error<InvalidArgument>([&] { all_to_all(of(9), either, stream); }, {"into symmetric tensor"});
    expect_error<InvalidArgument>([&] { all_to_all(either, into(9), stream); }, {"out of symmetric tensor"});
    std::vector<std::int64_t> counts(9, 2);
    if (odd) counts[1] = 1;  // from rank 0 to rank 1
    expect_error<InvalidArgument>([&] { all_to_all(of(6), into(6), counts, stream); },
                                  {"counts [[2, 1, 2], [2, 2, 2], [2, 2, 2]]", "a run of 2 elements a pair of ranks"});
    expect_error<InvalidArgument>([&] { broadcast(of(9), odd ? 1 : 0, stream); },
                                  {"'Broadcast'", "9 elements from root 0 between", "9 elements from root 1"});
    expect_error<InvalidArgument>([&] { broadcast(either, 0, stream); }, {"from root 0 into symmetric tensor"});
    expect_error<InvalidArgument>([&] { odd ? broadcast(of(9), 0, stream) : all_reduce(of(9), into(9), stream); },
                                  {"make different calls", "'AllReduce'", "'Broadcast'"});

    // None of these errors leaves anything behind: runs with equal arguments work.
    for (int i = 0; i < 3; ++i) {
      all_reduce(of(9), into(9), stream);
      all_gather.start(of(3), one, stream);
      all_gather.finish(stream);
      all_to_all(of(6), into(6), std::vector<std::int64_t>(9, 2), stream);
      broadcast(other, 2, stream);
    }
    team.synchronize(stream);
  });
}

TANDEM_ON_EACH_DEVICE(ComparedRuns);

}  // namespace
}  // namespace tandem::testing

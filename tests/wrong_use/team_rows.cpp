// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/env.hpp"
#include "tandem/team/launch.hpp"
#include "tandem/team/team.hpp"

#include "wrong_use/rows.hpp"
#include "wrong_use/support.hpp"

namespace tandem::wrong_use {
namespace {

Wrong launcher(const std::map<std::string, std::string>& variables) {
  return alone([=] {
    static_cast<void>(Launch::detect([&](const std::string& asked) -> std::optional<std::string> {
      const auto found = variables.find(asked);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    }));
  });
}

}  // namespace

const std::vector<Row>& team_rows() {
  static const std::vector<Row> table{
      // Launches
      {"LaunchRank",
       0,
       launcher({{"TANDEM_RANK", "2"}, {"TANDEM_WORLD_SIZE", "2"}, {"TANDEM_JOB", "j"}}),
       {"TANDEM_RANK is '2'", "from 0 to 1", "tandem run"}},
      {"LaunchSize",
       0,
       launcher({{"TANDEM_RANK", "0"}, {"TANDEM_WORLD_SIZE", "two"}, {"TANDEM_JOB", "j"}}),
       {"TANDEM_WORLD_SIZE is 'two'", "whole number"}},
      {"LaunchIncomplete", 0, launcher({{"TANDEM_RANK", "0"}}), {"is not set", "tandem run"}},
      {"LaunchGiven",
       0,
       alone([] {
         static_cast<void>(init({.launch = Launch{3, 2, 0, 1, 1, "wrong.use", "tests"}, .env = Env{}, .device = {}}));
       }),
       {"rank 3 in a world of 2"}},
      {"LaunchOfTooManyRanks",
       0,
       alone([] {
         static_cast<void>(
             init({.launch = Launch{0, 65537, 0, 65537, 1, "wrong.use", "tests"}, .env = Env{}, .device = {}}));
       }),
       {"a world of 65537", "65536"}},
      {"SeveralNodes",
       0,
       alone([] {
         static_cast<void>(init({.launch = Launch{0, 2, 0, 1, 2, "wrong.use", "tests"}, .env = Env{}, .device = {}}));
       }),
       {"2 nodes", "one node"},
       Kind::unsupported},
      {"LaunchWithoutLocalRanks",
       0,
       alone([] {
         static_cast<void>(init({.launch = Launch{1, 4, 0, 1, 1, "wrong.use", "tests"}, .env = Env{}, .device = {}}));
       }),
       {"local rank 0 of 1", "rank 1 of 4", "as many local ranks as ranks"}},
      {"LaunchOfALocalRankOutside",
       0,
       alone([] {
         static_cast<void>(init({.launch = Launch{1, 2, 2, 2, 1, "wrong.use", "tests"}, .env = Env{}, .device = {}}));
       }),
       {"local rank 2 of 2", "rank 1 of 2", "local rank < local size"}},
      {"LaunchWithoutAJob",
       0,
       alone(
           [] { static_cast<void>(init({.launch = Launch{0, 1, 0, 1, 1, "", "tests"}, .env = Env{}, .device = {}})); }),
       {"without a job's name", "rank 0", "no other job"}},
      // Worlds and teams
      {"InitTwice",
       1,
       [](World& world) {
         static_cast<void>(init({.launch = world.launch(), .env = Env{}, .device = DeviceId{DeviceType::host, 0}}));
       },
       {"while a world of job", "rank {rank}"}},
      {"TeamOfStrangers", 2, [](World& world) { static_cast<void>(world.team({0, 2})); }, {"rank 2", "0 to 1"}},
      {"TeamOfTwins", 2, [](World& world) { static_cast<void>(world.team({1, 1})); }, {"rank 1", "twice"}},
      {"RankOutsideOfTeam",
       2,
       [](World& world) { static_cast<void>(world.team().world_rank(2)); },
       {"rank 2", "0 to 1"}},
      {"EmptyTeamUsed", 1, [](World&) { Team().barrier(); }, {"empty", "not one of its members"}},
      {"DifferentCalls",
       2,
       [](World& world) { static_cast<void>(world.team().exchange(world.rank() == 0 ? "left" : "right", {})); },
       {"different calls", "'left'", "'right'"}},
      {"DifferentArguments",
       2,
       [](World& world) { world.team().agree("size", world.rank() == 0 ? "4" : "5"); },
       {"'size'", "'4'", "'5'"}},
      {"TimeoutOfNothing",
       1,
       [](World& world) { world.team().set_timeout(std::chrono::milliseconds(0)); },
       {"0 ms", "1 ms to 365 days", "rank 0"}},
      {"TimeoutWithoutEnd",
       1,
       [](World& world) { world.team().set_timeout(std::chrono::milliseconds::max()); },
       {"9223372036854775807 ms", "1 ms to 365 days", "rank 0"}},
  };
  return table;
}

}  // namespace tandem::wrong_use

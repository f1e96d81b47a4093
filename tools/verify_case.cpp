// SPDX-License-Identifier: Apache-2.0
#include "tools/verify_case.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <string_view>
#include <thread>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/event.hpp"

#include "base/format.hpp"
#include "tools/corruption.hpp"
#include "tools/parse.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

std::uint64_t key_of(const CaseName& name) {
  return testing::key(name.seed, {static_cast<std::uint64_t>(name.operation), static_cast<std::uint64_t>(name.index)});
}

/// Some of the ranks [0, from), in random order.
std::vector<int> some_ranks(Random& random, int from) {
  std::vector<int> ranks(static_cast<std::size_t>(from));
  std::iota(ranks.begin(), ranks.end(), 0);
  for (std::size_t i = ranks.size(); i > 1; --i) {
    std::swap(ranks[i - 1], ranks[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i) - 1))]);
  }
  // Half of the time all ranks: these cases find the most errors.
  if (random.chance(50)) ranks.resize(static_cast<std::size_t>(random.between(1, from)));
  return ranks;
}

/// A team of some of the world's ranks, or a subteam of it; the same draws on every rank. Never the world's own team: a
/// case that fails must not make the next one fail.
Team random_team(const World& world, Random& random) {
  const std::vector<int> ranks = some_ranks(random, world.size());
  const std::vector<int> again = some_ranks(random, static_cast<int>(ranks.size()));
  const Team team = world.team(ranks);
  return team && random.chance(25) ? team.team(again) : team;
}

}  // namespace

Case::Case(const Team& team, const CaseName& name)
    : team_(team),
      key_(key_of(name)),
      random_(key({1})),
      own_(key({2, static_cast<std::uint64_t>(team.rank())})),
      delays_(random_.chance(25) || name.delay),
      corrupt_(corrupts(team.rank())) {}

std::uint64_t Case::key(std::initializer_list<std::uint64_t> parts) const { return testing::key(key_, parts); }

std::int64_t Case::extent(std::int64_t most) {
  const std::int64_t draw = random_.between(0, 99);
  if (draw < 4) return 0;
  if (draw < 40) return random_.between(1, std::min<std::int64_t>(most, 9));
  if (draw < 60) return std::min(most, std::int64_t{8} << random_.between(0, 5));  // sizes that suit kernels
  return random_.between(1, most);
}

void Case::maybe_delay(StreamRef stream) {
  if (!delays_ || !own_.chance(40)) return;
  const auto delay = std::chrono::microseconds(own_.between(0, 2000));
  if (own_.chance(30)) {
    std::this_thread::sleep_for(delay);
  } else {
    team_.device().launch(stream, [delay] { std::this_thread::sleep_for(delay); });
  }
}

void Case::queue(std::span<const Stream, 2> streams, const std::function<void(StreamRef)>& body) {
  const bool second = random_.chance(25);
  const StreamRef stream = streams[second ? 1 : 0];
  maybe_delay(stream);
  if (team_.device().id().type != DeviceType::cuda || !random_.chance(30)) return body(stream);
  // What is captured into a graph is not ordered by its plan with runs outside of it: that is the caller's business.
  const StreamRef other = streams[second ? 0 : 1];
  Event event(team_.device());
  const auto order = [&event](StreamRef before, StreamRef after) {
    event.record(before);
    event.wait(after);
  };
  order(other, stream);
  graphs_.emplace_back(team_.device(), stream, [&] { body(stream); });
  graphs_.back().launch(stream);
  order(stream, other);
}

std::vector<std::byte> Case::taken(std::vector<std::byte> result, DType dtype) {
  if (corrupt_ && !result.empty()) {
    corrupt(result, dtype);
    corrupt_ = false;
  }
  return result;
}

void Case::expect(const testing::Comparison& comparison, std::int64_t run) {
  if (comparison.wrong != 0) expect(false, testing::to_string(comparison), run);
}

void Case::expect(bool right, const std::string& otherwise, std::int64_t run) {
  if (right) return;
  result_.wrong += format("{}run {}: {}", result_.wrong.empty() ? "" : "; ", run, otherwise);
}

void Case::expect_same_bits(std::span<const std::byte> result, std::int64_t run) {
  const std::string_view bits(reinterpret_cast<const char*>(result.data()), result.size());
  const std::vector<std::string> all = gather_texts(team_, format("{}", std::hash<std::string_view>{}(bits)));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    expect(all[rank] == all[0], format("the team's ranks 0 and {} got different bits", rank), run);
  }
}

CaseResult run_case(const World& world, const CaseName& name) {
  Random random(testing::key(key_of(name), {0}));
  Team team;
  try {
    team = random_team(world, random);
    if (!team) return {};
    // A wait that fails must time out before the ranks that wait for the end of this case do.
    team.set_timeout(std::max(world.team().timeout() / 4, std::chrono::milliseconds(1)));
    Case self(team, name);
    try {
      is_linear(name.operation) ? run_linear_case(name.operation, self) : run_collective_case(name.operation, self);
    } catch (const Error& error) {
      CaseResult result = self.result();
      if (result.what.empty()) result.what = "before its first run";
      result.wrong = format("it threw: {}", error.what());
      return result;
    }
    CaseResult result = self.result();
    std::vector<std::string> ranks;
    for (const int rank : team.members()) ranks.push_back(format("{}", rank));
    result.what += format(", on ranks [{}]", joined(ranks));
    return result;
  } catch (const Error& error) {
    world.team().check();
    return {.what = "making its team", .wrong = format("it threw: {}", error.what())};
  }
}

}  // namespace tandem::tools
